"use strict";
/* One service's card: draws what a frame says, and says where a figure is held or unknown instead of showing it. */
const Panels = (() => {
  const { clock, moment, figure } = Charts;
  const COLUMNS = ["x", "load", "upper", "median", "ahead", "capacity", "queue", "wait", "desired", "ready", "starting", "needs", "blind", "coverage", "asked", "loss"];
  const SIGNAL_NAMES = { arrivals: "arrivals", queue: "queue", in_flight: "in flight", tokens: "tokens", kv: "KV cache", latency: "latency" };
  const MODES = { Shadow: "Shadow: decides, never acts", Paused: "Paused: replicas stay as they are", PausedScaleIn: "Paused scale-in: takes nothing away", PausedScaleOut: "Paused scale-out: adds nothing" };
  const SENTENCE_MS = 900, CELLS = 64, STARTS = 5, HELD_TICKS = 3, LOST_TICKS = 8;

  const percent = (share, digits) => (share === null ? "–" : `${(100 * share).toFixed(digits ?? (share > 0 && share < 0.0995 ? 1 : 0))} %`);
  const span = (s) => (s === null ? "–" : s < 599.5 ? `${s < 9.95 && s % 1 ? s.toFixed(1) : Math.round(s)} s` : s < 5970 ? `${Math.round(s / 60)} min` : `${Number((s / 3600).toFixed(1))} h`);
  const worst = (states) => (states.includes("unknown") ? "unknown" : states.includes("held") ? "held" : "fresh");

  function put(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }
  function mark(node, name, value) {
    if (value) { if (node.dataset[name] !== value) node.dataset[name] = value; } else if (name in node.dataset) delete node.dataset[name];
  }
  function element(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  const move = (from, to) => (from === to ? `holds ${to}` : `${from} → ${to}`);

  function steps(list, trace) {
    list.replaceChildren(...trace.map((step) => {
      const item = element("li");
      item.append(element("span", step.stage, "step-stage"), element("span", move(step.before, step.after), "step-move"), element("span", capital(step.text)));
      const facts = element("div", undefined, "step-facts");
      for (const [label, text] of step.facts) {
        const one = element("span", `${label} `);
        one.append(element("em", text));
        facts.append(one);
      }
      item.append(facts);
      return item;
    }));
  }

  /** How late a workload's own record is: one that is stepped no more must not look fresh because others are. */
  function lateness(row, now, link) {
    const age = now - row.now_s, seen = Math.max(row.tick_s, 5);
    if (link.ended || link.state === "lost" || age <= HELD_TICKS * seen) return link;
    const text = `not decided on for ${span(age)}`;
    return age > LOST_TICKS * seen ? { state: "lost", age, text } : { state: "held", age, text };
  }

  class Service {
    constructor(frame) {
      this.node = document.getElementById("service").content.firstElementChild.cloneNode(true);
      this.columns = Object.fromEntries(COLUMNS.map((name) => [name, []]));
      this.decisions = [];
      this.frame = frame;
      this.known = {};
      this.spoken = { key: "", at: -Infinity };
      this.shown = 0;
      this.visible = true;
      this.cursor = null;
      const find = (selector) => this.node.querySelector(selector);
      this.parts = {
        sentence: find(".sentence"), status: find(".status"), signals: find(".signals"), cells: find(".cells"), starts: find(".starts ol"),
        startsNote: find(".starts .note"), startsCount: find(".starts h3 span"), decisions: find(".decisions ol"), trace: find(".trace"), steps: find(".trace > ol"),
        figures: Object.fromEntries([...this.node.querySelectorAll("[data-figure]")].map((box) => [box.dataset.figure, box])),
      };
      find("h2").textContent = frame.workload;
      this.parts.mode = find(".mode");
      this.node.setAttribute("aria-label", frame.workload);
      this.parts.steps.classList.add("steps-wide");
      this.parts.trace.addEventListener("toggle", () => this.drawTrace(true));
      this.charts = this.makeCharts(frame.workload);
      this.beside = new Beside.Past(this.node, this);
    }

    makeCharts(name) {
      const tall = (wide, narrow) => () => (innerWidth <= 640 ? narrow : wide);
      const lines = {
        load: [{ label: "load", ink: "--load", width: 1.75 }, { label: "capacity", ink: "--ready", step: true, width: 1.5 }],
        replicas: [
          { label: "getting", ink: "--start", step: true, width: 1 }, { label: "has", ink: "--ready", fill: "--ready-fill", step: true, width: 1.25 },
          { label: "ordered", ink: "--order", step: true, width: 1.25 }, { label: "needs", ink: "--load", step: true, width: 1, dash: [2, 3] },
        ],
        wait: [{ label: "expected wait", ink: "--queue", fill: "--queue-fill", width: 1.25 }],
      };
      const heights = { load: tall(186, 160), replicas: tall(128, 120), wait: tall(104, 100) };
      return Object.fromEntries(Object.entries(lines).map(([key, series]) => {
        const host = this.node.querySelector(`[data-plot="${key}"]`);
        const chart = Charts.make(host, {
          height: heights[key], series, sync: name, between: key === "replicas" ? { series: [1, 2], fill: "--start-fill" } : null, axis: key === "wait", whole: key === "replicas",
          floorTop: key === "wait" ? this.frame.slo_wait_s * 1.25 : key === "replicas" ? 4 : 1,
          limit: key === "wait" ? () => this.frame.slo_wait_s : null,
          legend: (index) => { this.cursor = index; this.drawLegends(); },
        });
        return [key, chart];
      }));
    }

    /** Replace or extend what the charts show: rows of numbers in the order of COLUMNS. */
    learn(rows, decisions, afresh) {
      if (afresh) {
        for (const name of COLUMNS) this.columns[name] = [];
        this.decisions = [];
      }
      for (const row of rows) COLUMNS.forEach((name, i) => this.columns[name].push(row[i]));
      for (const decision of decisions) this.decisions.unshift(decision);
      this.decisions.length = Math.min(this.decisions.length, 60);
      if (decisions.length || afresh) this.drawDecisions();
    }

    state(signal, link) {
      const own = this.frame.signals.find((s) => s.signal === signal) || { state: "absent", age_s: null };
      if (link.state === "lost" && !link.ended) return { state: "unknown", age: link.age };
      if (link.state === "held" && !link.ended) return { state: worst([own.state, "held"]), age: link.age };
      return { state: own.state === "absent" ? "unknown" : own.state, age: own.age_s, never: own.state === "absent" };
    }

    /** A figure that depends on a signal: the value, the value as held with its age, or the word unknown. */
    drawFigure(name, signal, text, note, link) {
      const box = this.parts.figures[name], { state, age, never } = this.state(signal, link);
      if (text !== "–") this.known[name] = text;
      mark(box, "state", state);
      put(box.querySelector("b"), state === "unknown" ? "unknown" : state === "held" ? this.known[name] ?? "–" : text);
      box.querySelector("small")?.toggleAttribute("hidden", state === "unknown");
      put(box.querySelector(".note"), state === "fresh" ? note : state === "held" ? `held, ${span(age)} old` : never ? "no reading yet" : `no reading for ${span(age)}`);
      return state;
    }

    close() {
      for (const chart of Object.values(this.charts)) chart.destroy();
      this.beside.close();
      this.node.remove();
    }

    draw(overall, from, to, now) {
      const f = this.frame, link = lateness(f, now, overall);
      this.now = now;
      put(this.parts.mode, MODES[f.mode] ?? "");
      this.parts.mode.hidden = !MODES[f.mode];
      this.drawSignals(link);
      this.drawSentence(link);
      this.drawFigure("load", "arrivals", figure(f.load_rps), f.capacity_rps === null ? "capacity not known yet" : `of ${figure(f.capacity_rps)} that is ready`, link);
      const queueState = this.drawFigure("queue", "queue", figure(f.queue), f.late_ratio === null ? "" : `${percent(f.late_ratio)} of arrivals late`, link);
      const unsure = f.wait_s === null && queueState !== "unknown";
      this.drawFigure("wait", "queue", unsure ? "–" : span(f.wait_s), unsure ? (f.ready && f.replica_rps === null ? "capacity not known yet" : "nothing ready serves it") : `objective ${span(f.slo_wait_s)}`, link);
      this.meter("wait", queueState === "unknown" || f.wait_s === null ? 0 : f.wait_s / f.slo_wait_s, 0.5, 1);
      this.drawBudget(link);
      const held = f.coverage_ratio === null ? "not scored yet" : `held ${percent(f.coverage_ratio, 1)}`;
      this.drawFigure("forecast", "arrivals", figure(f.forecast_rps), `in ${span(f.forecast_ahead_s)}; ${held}`, link);
      this.drawReplicas(link);
      this.drawStarts();
      if (this.visible) this.drawCharts(from, to);
      this.beside.draw(f, from, to);
      this.drawTrace(false);
    }

    meter(name, share, warn, bad) {
      const bar = this.parts.figures[name].querySelector(".meter");
      bar.firstElementChild.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
      const tone = share >= bad ? "bad" : share >= warn ? "warn" : "";
      mark(bar, "tone", tone);
      mark(this.parts.figures[name], "tone", tone === "bad" ? "bad" : "");
    }

    drawBudget(link) {
      const f = this.frame, box = this.parts.figures.budget, lost = link.state === "lost" && !link.ended;
      mark(box, "state", lost ? "unknown" : "fresh");
      put(box.querySelector("b"), lost ? "unknown" : percent(f.budget_burn_ratio));
      put(box.querySelector(".note"), `a wait of ${span(f.slo_wait_s)} at most`);
      this.meter("budget", lost ? 0 : f.budget_burn_ratio, 0.7, 1);
    }

    drawSignals(link) {
      const rows = this.frame.signals;
      while (this.parts.signals.children.length < rows.length) this.parts.signals.append(element("li"));
      rows.forEach((signal, i) => {
        const chip = this.parts.signals.children[i], { state, age, never } = this.state(signal.signal, link);
        mark(chip, "state", never ? "absent" : signal.blocking || state === "fresh" ? state : "silent");
        put(chip, `${SIGNAL_NAMES[signal.signal] || signal.signal} ${never ? "none" : state === "fresh" ? `fresh ${span(age)}` : `${state} ${span(age)}`}`);
      });
    }

    drawSentence(link) {
      const { decision, overload, signals } = this.frame, key = `${decision.before} ${decision.after} ${decision.reason}`;
      const now = performance.now();
      if (key !== this.spoken.key || now - this.spoken.at > SENTENCE_MS) {
        this.spoken = { key, at: now };
        put(this.parts.sentence, capital(decision.text));
        this.parts.sentence.title = decision.text;
      }
      const needed = signals.filter((s) => s.blocking && s.state !== "absent"), states = needed.map((s) => s.state);
      const learnt = this.frame.replica_rps !== null;
      let text = learnt ? "All that is needed is fresh; nothing is overloaded." : "All that is needed is fresh; what one replica carries is not known yet.", tone = "";
      if (link.state !== "live" && !link.ended) [text, tone] = [link.text, link.state === "lost" ? "bad" : "warn"];
      else if (signals.every((s) => s.state === "absent")) [text, tone] = ["No metrics were read yet: load and queue are unknown, nothing shrinks.", "bad"];
      else if (worst(states) === "unknown") [text, tone] = [`No metrics for ${span(Math.max(...needed.map((s) => s.age_s ?? 0)))}: figures are unknown, nothing shrinks. The sentence rests on older readings.`, "bad"];
      else if (worst(states) === "held") [text, tone] = link.ended ? ["The last metrics came some time before the end: figures are as they stood then.", ""] : ["Metrics are late: the last figures are held.", "warn"];
      else if (overload) [text, tone] = [`Overload: ${overload.deficit_replicas} short. Admit ${figure(overload.admissible_rps)} req/s (shed ${percent(overload.shed_ratio)}), retry after ${span(overload.retry_after_s)}.`, "bad"];
      mark(this.parts.sentence, "tone", tone === "bad" && !overload ? "old" : "");
      put(this.parts.status, text);
      mark(this.parts.status, "tone", tone);
    }

    drawReplicas(link) {
      const f = this.frame, box = this.parts.figures.replicas, coming = f.starting.length, lost = link.state === "lost" && !link.ended;
      const known = f.needs !== null && !lost;
      put(box.querySelector("[data-part=needs]"), known ? String(f.needs) : "?");
      put(box.querySelector("[data-part=has]"), lost ? "?" : String(f.ready));
      put(box.querySelector("[data-part=getting]"), lost ? "?" : String(coming));
      const per = Math.max(1, Math.ceil(Math.max(f.ready + coming, f.needs ?? 0) / CELLS)), kinds = [];
      for (let i = 0; i < f.ready; i += per) kinds.push(["ready", 0]);
      f.starting.forEach((start, i) => { if (i % per === 0) kinds.push(["start", Math.min(1, start.age_s / Math.max(f.warmup_p50_s, 1))]); });
      for (let i = f.ready + coming; i < (f.needs ?? 0); i += per) kinds.push(["short", 0]);
      const cells = this.parts.cells;
      while (cells.children.length < kinds.length) cells.append(element("i"));
      while (cells.children.length > kinds.length) cells.lastChild.remove();
      kinds.forEach(([kind, grown], i) => {
        const cell = cells.children[i];
        mark(cell, "kind", kind);
        if (kind === "start") cell.style.setProperty("--grown", grown.toFixed(2));
      });
      cells.setAttribute("aria-label", lost ? "replicas unknown" : `needs ${f.needs ?? "unknown"}, has ${f.ready} ready, ${coming} starting, ${f.desired} ordered`);
    }

    drawStarts() {
      const f = this.frame, list = this.parts.starts, longest = Math.max(f.warmup_p90_s * 1.15, ...f.starting.map((s) => s.age_s), 1);
      const oldest = [...f.starting].sort((a, b) => b.age_s - a.age_s), shown = oldest.slice(0, oldest.length > STARTS ? STARTS - 1 : STARTS);
      put(this.parts.startsCount, f.starting.length ? String(f.starting.length) : "");
      put(this.parts.startsNote, `half ready by ${span(f.warmup_p50_s)}, 90 % by ${span(f.warmup_p90_s)}; ${f.warmup_samples ? `${f.warmup_samples} measured` : "assumed so far"}`);
      const rows = shown.length + (oldest.length > shown.length || !oldest.length ? 1 : 0);
      while (list.children.length > rows) list.lastChild.remove();
      while (list.children.length < rows) list.append(element("li"));
      shown.forEach((start, i) => this.drawStart(list.children[i], start, longest));
      if (rows > shown.length) {
        const rest = list.children[shown.length];
        rest.className = "more";
        delete rest.dataset.late;
        put(rest, oldest.length ? `and ${oldest.length - shown.length} more` : "none");
      }
    }

    drawStart(row, start, longest) {
      const f = this.frame;
      if (row.className || row.children.length !== 3) {
        row.className = "";
        const bar = element("span", undefined, "bar90");
        bar.append(element("i"), element("u"), element("u"));
        row.replaceChildren(element("span"), bar, element("span"));
      }
      const [name, bar, age] = row.children, late = start.age_s > f.warmup_p90_s;
      put(name, start.name);
      bar.children[0].style.width = `${(100 * start.age_s / longest).toFixed(1)}%`;
      bar.children[1].style.left = `${(100 * f.warmup_p50_s / longest).toFixed(1)}%`;
      bar.children[2].style.left = `${(100 * f.warmup_p90_s / longest).toFixed(1)}%`;
      put(age, start.unschedulable ? "no node" : `${Math.round(start.age_s)} s${late ? " late" : ""}`);
      row.toggleAttribute("data-late", late || start.unschedulable);
    }

    drawCharts(from, to) {
      const c = this.columns, x = c.x, band = { x: [], low: [], high: [] }, blind = [];
      for (let i = 0; i < x.length; i++) {
        const at = x[i] + c.ahead[i];
        if (!band.x.length || at > band.x[band.x.length - 1]) {
          band.x.push(at);
          band.low.push(c.median[i] === null || c.upper[i] === null ? null : Math.min(c.median[i], c.upper[i]));
          band.high.push(c.upper[i]);
        }
        if (c.blind[i]) {
          const left = i ? x[i - 1] : x[i], last = blind[blind.length - 1];
          if (last && last[1] === left && last[2] === (c.blind[i] > 1)) last[1] = x[i];
          else blind.push([left, x[i], c.blind[i] > 1]);
        }
      }
      const now = this.frame.now_s, shared = { x, from, to, now, blind, band: null };
      const all = x.map((_at, i) => c.ready[i] + c.starting[i]);
      this.charts.load.set({ ...shared, rows: [c.load, c.capacity], band });
      this.charts.replicas.set({ ...shared, rows: [all, c.ready, c.desired, c.needs] });
      this.charts.wait.set({ ...shared, rows: [c.wait] });
      this.drawLegends();
    }

    drawLegends() {
      const c = this.columns, last = c.x.length - 1, i = this.cursor === null || this.cursor === undefined ? last : Math.min(this.cursor, last);
      if (i < 0) return;
      const at = this.cursor === null ? "" : ` at ${clock(c.x[i], true)}`;
      this.legend("load", `Load, req/s${at}`, [["load", "--load", "", figure(c.load[i])], ["forecast", "--band-edge", "area", c.upper[i] === null ? "–" : `${figure(c.median[i])}–${figure(c.upper[i])}`, `by ${this.frame.forecast_model}`], ["capacity", "--ready", "", figure(c.capacity[i])]]);
      this.legend("replicas", "Replicas", [["has", "--ready", "area", figure(c.ready[i])], ["getting", "--start", "area", figure(c.starting[i])], ["ordered", "--order", "", figure(c.desired[i])], ["needs", "--load", "dot", figure(c.needs[i])]]);
      this.legend("wait", "Expected wait, s", [["wait", "--queue", "", figure(c.wait[i])], ["objective", "--bad", "dash", figure(this.frame.slo_wait_s)], ["queue", "--queue", "none", figure(c.queue[i])]]);
      if (performance.now() - this.shown > 5000) {
        this.shown = performance.now();
        this.charts.load.say(`Load ${figure(c.load[last])} requests per second, forecast at most ${figure(c.upper[last])}, capacity ${figure(c.capacity[last])}`);
        this.charts.replicas.say(`${c.ready[last]} replicas ready, ${c.starting[last]} starting, ${c.desired[last]} ordered`);
        this.charts.wait.say(`Expected wait ${figure(c.wait[last])} seconds of ${figure(this.frame.slo_wait_s)} allowed`);
      }
    }

    legend(key, title, rows) {
      const host = this.node.querySelector(`[data-legend="${key}"]`);
      if (!host.children.length) {
        host.append(element("h3"));
        for (const [label, ink, kind] of rows) {
          const one = element("span"), swatch = element("i", undefined, `swatch ${kind}`);
          swatch.style.borderColor = `var(${ink})`;
          if (kind === "area") swatch.style.background = `color-mix(in srgb, var(${ink}) 22%, transparent)`;
          one.append(...(kind === "none" ? [] : [swatch]), `${label} `, element("b"), " ", element("em"));
          host.append(one);
        }
      }
      put(host.children[0], title);
      rows.forEach((row, n) => put(host.children[n + 1].querySelector("b"), row[3]));
      rows.forEach((row, n) => row[4] && put(host.children[n + 1].querySelector("em"), row[4]));
    }

    drawDecisions() {
      const list = this.parts.decisions, open = new Set([...list.querySelectorAll("details[open]")].map((node) => node.dataset.at));
      const kept = new Map([...list.children].map((node) => [node.firstChild.dataset.at, node]));
      list.replaceChildren(...this.decisions.map((decision) => {
        const at = `${decision.now_s} ${decision.before} ${decision.after}`;
        const item = kept.get(at) || this.decisionItem(decision, at);
        item.firstChild.open = open.has(at);
        return item;
      }));
    }

    decisionItem(decision, at) {
      const item = element("li"), box = element("details"), line = element("summary"), steep = element("b", move(decision.before, decision.after));
      box.dataset.at = at;
      steep.dataset.way = decision.after > decision.before ? "up" : decision.after < decision.before ? "down" : "same";
      line.append(element("time", moment(decision.now_s, this.now ?? this.frame.now_s)), steep, element("span", capital(decision.gist)));
      line.title = decision.text;
      box.append(line);
      box.addEventListener("toggle", () => {
        if (!box.open || box.children.length > 1) return;
        const list = element("ol", undefined, "steps");
        steps(list, decision.trace);
        box.append(list);
      });
      item.append(box);
      return item;
    }

    drawTrace(afresh) {
      const now = performance.now();
      if (!this.parts.trace.open || (!afresh && now - (this.traced || 0) < SENTENCE_MS)) return;
      this.traced = now;
      steps(this.parts.steps, this.frame.decision.trace);
    }
  }
  return { Service, MODES, lateness, percent, span, element, mark, move, capital, put };
})();
