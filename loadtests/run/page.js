"use strict";
/* Runs second by second: each has five charts over one time, and all share one cursor. */
JSON.parse(document.getElementById("content").textContent).forEach((content, index) => {
  const { make, figure } = Charts, host = document.getElementById(`run-${index}`);
  const { x, end_s: end, objective_s: objective } = content, seconds = (at) => `${figure(at)} s`;
  const find = (kind, key) => host.querySelector(`[data-${kind}="${key}"]`);
  const held = x.map((_at, i) => content.ready[i] + content.starting[i]);
  const most = (row) => row.reduce((top, value) => Math.max(top, value ?? 0), 0);

  function legend(key, title, rows, at) {
    const caption = find("legend", key);
    caption.replaceChildren(document.createElement("h3"));
    caption.firstChild.textContent = title + (at === null ? "" : ` at ${seconds(at)}`);
    for (const [label, ink, kind, value] of rows) {
      const one = document.createElement("span"), swatch = document.createElement("i"), bold = document.createElement("b");
      swatch.className = `swatch ${kind}`;
      swatch.style.borderColor = `var(${ink})`;
      if (kind === "area") swatch.style.background = `color-mix(in srgb, var(${ink}) 22%, transparent)`;
      bold.textContent = value;
      one.append(swatch, `${label} `, bold);
      caption.append(one);
    }
  }

  function chart(key, title, height, xs, lines, options = {}) {
    const say = (i) => legend(key, title, lines.map((line) => [
      line.label, line.ink, line.dash ? "dash" : line.fill ? "area" : "", i === null ? `most ${figure(most(line.row))}` : figure(line.row[i]),
    ]), i === null ? null : xs[i]);
    const drawn = make(find("plot", key), { sync: "all", height: () => (innerWidth <= 640 ? Math.min(height, 120) : height), legend: say, ...options, series: lines });
    drawn.say(`${content.label}: ${title}: ${lines.map((line) => `${line.label} at most ${figure(most(line.row))}`).join(", ")}`);
    drawn.set({ x: xs, rows: lines.map((line) => line.row), from: 0, to: end, now: null, band: null, blind: options.blind ?? [] });
    say(null);
  }

  /** A strip of marks over the charts' time; the one that is pointed at, or stepped to, is told in words. */
  function strip(key, title, marks) {
    const bar = find("strip", key), caption = find("legend", key), words = find("words", key);
    const strong = marks.filter((mark) => mark.strong).length;
    let chosen = null;
    caption.append(Object.assign(document.createElement("h3"), { textContent: title }));
    bar.tabIndex = 0;
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `${content.label}: ${title}: ${marks.length}, ${strong} of them changed the count`);
    const drawn = marks.map((mark) => {
      const one = document.createElement("i");
      if (mark.strong) one.className = "strong";
      one.style.left = `${(100 * mark.at_s) / end}%`;
      bar.append(one);
      return one;
    });
    function say(i) {
      if (chosen !== null) drawn[chosen].removeAttribute("data-chosen");
      chosen = i;
      if (i !== null) drawn[i].dataset.chosen = "yes";
      words.textContent = i === null ? "The tall ones changed the count. Point at one, or step with the arrow keys, to read why." : `${seconds(marks[i].at_s)}: ${marks[i].text}`;
    }
    bar.addEventListener("pointermove", (event) => {
      const box = bar.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * end;
      say(marks.length ? marks.reduce((near, mark, i) => (Math.abs(mark.at_s - at) < Math.abs(marks[near].at_s - at) ? i : near), 0) : null);
    });
    bar.addEventListener("pointerleave", () => say(null));
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !marks.length) return;
      event.preventDefault();
      say(Math.min(marks.length - 1, Math.max(0, (chosen ?? (step > 0 ? -1 : marks.length)) + step)));
    });
    say(null);
  }

  const said = content.predicted ? [{ label: "ready, as the simulator says", ink: "--bad", step: true, width: 1, dash: [3, 3], row: content.predicted }] : [];
  chart("load", "Requests due, each second", 110, x, [{ label: "due", ink: "--load", width: 1.25, row: content.load }]);
  chart("replicas", "Replicas", 170, x, [
    { label: "ready or starting", ink: "--start", step: true, width: 1, row: held }, { label: "ready", ink: "--ready", fill: "--ready-fill", step: true, width: 1.25, row: content.ready },
    { label: "asked for", ink: "--order", step: true, width: 1, row: content.desired }, ...said,
  ], { whole: true, floorTop: 2, between: { series: [1, 2], fill: "--start-fill" } });
  strip("decisions", "Decisions", content.decisions);
  chart("queue", "Requests in the engines", 130, x, [
    { label: "waiting", ink: "--queue", fill: "--queue-fill", width: 1.25, row: content.waiting }, { label: "in a batch", ink: "--load", width: 1, row: content.running },
  ]);
  chart("ttft", `Seconds to the first token, by when the request was due; the objective is ${figure(objective)} s`, 130, content.ttft.x, [
    { label: "p99", ink: "--queue", width: 1.25, row: content.ttft.p99 }, { label: "p50", ink: "--load", width: 1.25, row: content.ttft.p50 },
  ], { sync: "latency", floorTop: objective * 1.25, limit: () => objective });
  if (content.shed) chart("shed", "What gateways are told while demand does not fit; hatched where that is not known", 90, x, [
    { label: "come again after, s", ink: "--start", fill: "--start-fill", step: true, width: 1, row: content.shed.retry_after_s },
    { label: "shed of the load, %", ink: "--bad", step: true, width: 1.25, row: content.shed.percent },
  ], { blind: content.shed.unknown, floorTop: 10 });
  chart("scaler", `Cores of what scales (${content.label})`, 90, x, [{ label: "cores", ink: "--ready", width: 1.25, row: content.cores }], { axis: true, tick: (s) => `${s} s` });
});
