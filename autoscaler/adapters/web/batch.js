"use strict";
/* Batch work: who owns the GPUs, the tree of queues, and every gang with its place, its reason and its expected start. */
const Batch = (() => {
  const { figure } = Charts, { span, element, mark, put, percent } = Panels;
  const OWNERS = [
    ["serving", "serving"], ["standby", "standby"], ["loan", "lent to batch"], ["batch", "batch"],
    ["reserved", "kept for a gang"], ["foreign", "others"], ["unavailable", "not usable"], ["free", "free"],
  ];

  /** A bar of one shape's units by owner; the legend beside it has the numbers, so that no color is needed to read it. */
  function owners(one) {
    const row = element("div", undefined, "owners"), bar = element("div", undefined, "owners-bar"), list = element("ul");
    const all = OWNERS.reduce((sum, [key]) => sum + one[key], 0);
    for (const [key, words] of OWNERS) {
      if (!one[key]) continue;
      const part = element("i");
      mark(part, "owner", key);
      part.style.setProperty("flex-grow", String(one[key]));
      part.title = `${one[key]} ${words}`;
      bar.append(part);
      const item = element("li"), swatch = element("i");
      mark(swatch, "owner", key);
      item.append(swatch, `${figure(one[key])} ${words}`);
      list.append(item);
    }
    bar.setAttribute("aria-hidden", "true");
    const broken = one.free ? `, ${figure(one.whole_free)} of the free ones on wholly free nodes` : "";
    row.append(element("h3", `${one.shape}: ${figure(all)} units${broken}`), bar, list);
    return row;
  }

  function cells(row, texts, names) {
    texts.forEach((text, i) => {
      const cell = row.children[i] ?? row.appendChild(element("td"));
      cell.dataset.name = names[i];
      put(cell, text);
    });
  }

  function queueRow(row, queue) {
    const units = (pick) => queue.shapes.map((shape) => pick(shape)).filter(Boolean).join(", ");
    const used = units((s) => `${figure(s.used)} ${s.shape}`);
    cells(row, [
      queue.queue, queue.state, queue.share_ratio === null ? "?" : percent(queue.share_ratio), String(queue.running), String(queue.waiting),
      used || "none", units((s) => (s.guaranteed ? `${figure(s.guaranteed)} ${s.shape}` : "")) || "none",
      units((s) => (s.limit === null ? "" : `${figure(s.limit)} ${s.shape}`)) || "none",
    ], QUEUE);
    row.firstChild.style.setProperty("padding-left", `${8 + 16 * queue.depth}px`);
    mark(row.children[1], "tone", queue.state === "served" ? "" : queue.state === "not served" ? "bad" : "warn");
    row.title = queue.findings.join("; ");
  }
  const QUEUE = ["Queue", "State", "Share", "Running", "Waiting", "In use", "Guaranteed", "Limit"];
  const GANG = ["Gang", "Queue", "Place", "Asks for", "State", "For", "Starts", "Why"];

  function gangRow(row, gang) {
    const waits = gang.state === "waiting";
    const starts = !waits ? "" : gang.wait_p50_s === null ? "not foreseen" : gang.wait_p90_s === null ? span(gang.wait_p50_s) : `${span(gang.wait_p50_s)} to ${span(gang.wait_p90_s)}`;
    cells(row, [gang.gang, gang.queue, gang.position === null ? "" : String(gang.position), gang.asks, gang.state, span(gang.age_s), starts, gang.text], GANG);
    mark(row.children[4], "tone", gang.state === "refused" ? "bad" : gang.state === "leaving" ? "warn" : "");
  }

  class Rows {
    constructor(body, draw) {
      [this.body, this.write] = [body, draw];
    }

    draw(rows) {
      while (this.body.children.length > rows.length) this.body.lastChild.remove();
      rows.forEach((row, i) => this.write(this.body.children[i] ?? this.body.appendChild(element("tr")), row));
    }
  }

  function table(host, names) {
    const made = element("table"), head = element("tr");
    for (const name of names) {
      const cell = element("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    const top = element("thead"), body = element("tbody");
    top.append(head);
    made.append(top, body);
    host.append(made);
    return body;
  }

  class Board {
    constructor(host) {
      this.host = host;
      this.idle = host.querySelector(".batch-idle");
      this.owners = host.querySelector(".batch-owners");
      this.found = host.querySelector(".batch-findings");
      this.sums = host.querySelector(".batch-sums");
      this.more = host.querySelector(".batch-more");
      this.queues = new Rows(table(host.querySelector(".batch-queues"), QUEUE), queueRow);
      this.gangs = new Rows(table(host.querySelector(".batch-gangs"), GANG), gangRow);
    }

    draw(lines) {
      this.host.hidden = lines === null;
      if (lines === null) return;
      this.idle.hidden = lines.acting;
      put(this.idle, `Only told, not carried out: ${lines.idle_reason}`);
      this.owners.replaceChildren(...lines.owners.map(owners));
      this.queues.draw(lines.queues);
      const told = lines.queues.flatMap((queue) => queue.findings.map((words) => `${queue.queue}: ${words}`));
      this.found.replaceChildren(...told.map((words) => element("li", words)));
      const waiting = lines.waiting.map((one) => `${one.gangs} × ${one.means}`).join(", ");
      put(this.sums, [waiting ? `Waiting: ${waiting}.` : "Nobody waits.", lines.lost_gpu_h ? `${figure(lines.lost_gpu_h)} GPU-h of work were lost to evictions.` : ""].filter(Boolean).join(" "));
      this.gangs.draw(lines.gangs);
      this.more.hidden = !lines.more;
      put(this.more, `${lines.more} more: headroom queue lists them.`);
    }
  }
  return { Board };
})();
