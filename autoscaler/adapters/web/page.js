"use strict";
/* The stream: a snapshot at connect, updates after it; and what the page says when updates stop coming. */
(() => {
  const { clock, figure } = Charts, { Service, percent, span, element, put } = Panels;
  const HELD_MS = 3000, LOST_MS = 15000, SAY_MS = 6000;
  const at = (id) => document.getElementById(id);
  const services = new Map();
  const seen = new IntersectionObserver((rows) => rows.forEach((row) => { row.target.service.visible = row.isIntersecting; }), { rootMargin: "300px" });
  let now = 0, speed = 1, spanS = 7200, began = null, lastFrame = null, connected = false, ended = null, dirty = false, said = { text: "", at: -Infinity };

  function link() {
    const age = lastFrame === null ? null : (performance.now() - lastFrame) / 1000;
    if (ended !== null) return { state: "live", ended: true, age, text: ended };
    if (lastFrame === null) return { state: "wait", age, text: connected ? "connected, no readings yet" : "connecting" };
    const why = connected ? "no new record" : "connection lost";
    if (age * 1000 > LOST_MS) return { state: "lost", age, text: `${why} for ${Math.round(age)} s: figures are unknown` };
    if (!connected || age * 1000 > HELD_MS) return { state: "held", age, text: `${why} for ${Math.round(age)} s: last figures are held` };
    return { state: "live", age, text: "live" };
  }

  function sum(pick) {
    let total = 0;
    for (const { frame } of services.values()) {
      const value = pick(frame);
      if (value === null) return null;
      total += value;
    }
    return total;
  }

  function drawTotals(state) {
    const lost = state.state === "lost";
    const text = (value) => (lost || value === null ? "unknown" : figure(value));
    put(at("total-time"), services.size ? clock(now, true) : "–");
    put(at("total-speed"), !services.size ? "–" : Math.abs(speed - 1) < 0.01 ? "live" : `×${figure(speed)}`);
    put(at("total-services"), services.size ? String(services.size) : "–");
    if (!services.size) return;
    put(at("total-load"), text(sum((f) => f.load_rps)));
    put(at("total-needs"), text(sum((f) => f.needs)));
    put(at("total-ready"), text(sum((f) => f.ready)));
    put(at("total-starting"), text(sum((f) => f.starting.length)));
  }

  function draw() {
    dirty = false;
    const state = link();
    document.body.dataset.link = state.ended ? "ended" : state.state;
    at("link").dataset.state = state.ended ? "ended" : state.state;
    put(at("link-text"), state.text);
    at("empty").hidden = services.size > 0;
    drawTotals(state);
    let ahead = 0;
    for (const { frame } of services.values()) ahead = Math.max(ahead, frame.forecast_ahead_s);
    const to = now + Math.min(ahead, (spanS || Math.max(now - began, 900)) / 4);
    const from = spanS ? Math.max(Math.min(began, now - 900), now - spanS) : Math.min(began, now - 900);
    for (const service of services.values()) service.draw(state, from, to);
    say();
  }

  /** The decision sentence for screen readers, at a pace that can be followed. */
  function say() {
    const moved = [...services.values()].map((s) => s.frame.decision).filter((d) => d.verdict === "SCALE");
    if (!moved.length || performance.now() - said.at < SAY_MS) return;
    const text = moved[moved.length - 1].text;
    if (text === said.text) return;
    said = { text, at: performance.now() };
    put(at("said"), text);
  }

  function stir() {
    if (dirty) return;
    dirty = true;
    requestAnimationFrame(draw);
  }

  function service(frame) {
    let one = services.get(frame.workload);
    if (!one) {
      one = new Service(frame);
      one.node.service = one;
      services.set(frame.workload, one);
      at("services").append(one.node);
      seen.observe(one.node);
    }
    one.frame = frame;
    return one;
  }

  function take(message, afresh) {
    [now, speed] = [message.now_s, message.speed];
    if (message.frames.length) lastFrame = performance.now() - 1000 * (message.quiet_s ?? 0);
    for (const frame of message.frames) {
      if (began === null) began = frame.now_s;
      service(frame);
    }
    for (const [name, rows] of Object.entries(message.points)) {
      if (afresh && rows.length) began = Math.min(began, rows[0][0]);
      services.get(name).learn(rows, message.decisions[name] || [], afresh);
    }
    stir();
  }

  const whole = (value) => (value === null ? "–" : Math.round(value).toLocaleString("en"));

  function results(table) {
    const host = at("results"), title = `${table.workload}: us, the peers and the optimum on the same ${span(table.duration_s)} of traffic`;
    const head = ["Policy and setting", "In time", "GPU-hours", "Over the optimum", "Turns per day", "Starts per day"];
    const row = element("tr"), body = element("tbody"), top = element("thead"), sheet = element("table"), frame = element("div", undefined, "table");
    head.forEach((text, i) => { const cell = element("th", text, i ? "num" : ""); cell.scope = "col"; row.append(cell); });
    for (const r of table.rows) {
      const line = element("tr"), name = element("th", r.policy), late = r.attainment_ratio !== null && r.attainment_ratio < table.goal_ratio;
      const cells = [r.attainment_ratio === null ? "–" : percent(r.attainment_ratio, 2), r.gpu_hours.toFixed(1), r.ratio_d2 === null ? "–" : `× ${r.ratio_d2.toFixed(3)}`, whole(r.direction_changes_per_day), whole(r.starts_per_day)];
      line.dataset.kind = r.kind;
      name.scope = "row";
      name.append(element("small", r.knob));
      line.append(name, ...cells.map((text, i) => element("td", text, !i && late ? "num late" : "num")));
      body.append(line);
    }
    top.append(row);
    sheet.append(top, body);
    frame.append(sheet);
    frame.tabIndex = 0;
    host.append(element("h2", title), frame, element("p", table.note));
    host.hidden = at("to-results").hidden = false;
  }

  const stream = new EventSource("events");
  stream.addEventListener("open", () => { connected = true; stir(); });
  stream.addEventListener("error", () => {
    connected = false;
    if (ended !== null) stream.close();
    stir();
  });
  stream.addEventListener("snapshot", (event) => {
    const message = JSON.parse(event.data);
    take(message, true);
    at("results").replaceChildren();
    message.results.forEach(results);
    if (message.ended !== null) finish(message.ended);
  });
  stream.addEventListener("update", (event) => take(JSON.parse(event.data), false));
  stream.addEventListener("results", (event) => results(JSON.parse(event.data)));
  stream.addEventListener("end", (event) => finish(JSON.parse(event.data).why));
  function finish(why) {
    ended = `${why} This is the last state.`;
    stir();
  }

  for (const button of document.querySelectorAll(".span button")) {
    button.addEventListener("click", () => {
      spanS = Number(button.dataset.span);
      for (const other of document.querySelectorAll(".span button")) other.setAttribute("aria-pressed", String(other === button));
      stir();
    });
  }
  setInterval(() => { if (ended === null) stir(); }, 1000);
  stir();
})();
