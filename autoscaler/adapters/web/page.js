"use strict";
/* The stream: a snapshot at connect, updates after it; and what the page says when updates stop coming. */
(() => {
  const { clock, dated, figure } = Charts, { Service, percent, span, element, mark, put } = Panels;
  const HELD_MS = 3000, LOST_MS = 15000, SAY_MS = 6000, FEW = 6;
  const at = (id) => document.getElementById(id);
  const services = new Map(), rows = new Map();
  const pools = new Pools.Board(at("pools")), batch = new Batch.Board(at("batch"));
  const table = new Overview.Table(at("lines"), at("find"), at("troubled"), at("found"));
  const seen = new IntersectionObserver((all) => all.forEach((row) => { row.target.service.visible = row.isIntersecting; }), { rootMargin: "300px" });
  let now = 0, speed = 1, spanS = 7200, began = null, lastFrame = null, connected = false, ended = null, dirty = false, said = { text: "", at: -Infinity };
  let stream = null, many = false, standing = { leading: true, holder: "", frozen: false };

  /** Silence is late after some steps of the busiest service, which a fast simulation makes in an instant. */
  function patience() {
    let tick = Infinity;
    for (const row of rows.values()) tick = Math.min(tick, row.tick_s);
    const step = tick === Infinity ? 0 : 1000 * tick / Math.max(speed, 0.01);
    return { held: Math.max(HELD_MS, 2 * step), lost: Math.max(LOST_MS, 6 * step) };
  }

  function link() {
    const age = lastFrame === null ? null : (performance.now() - lastFrame) / 1000, bounds = patience();
    if (ended !== null) return { state: "live", ended: true, age, text: ended };
    if (!standing.leading && lastFrame === null) return { state: "wait", age, text: connected ? "standing by" : "connecting" };
    if (lastFrame === null) return { state: "wait", age, text: connected ? "connected, no readings yet" : "connecting" };
    const why = connected ? "no new record" : "connection lost";
    if (age * 1000 > bounds.lost) return { state: "lost", age, text: `${why} for ${Math.round(age)} s: figures are unknown` };
    if (!connected || age * 1000 > bounds.held) return { state: "held", age, text: `${why} for ${Math.round(age)} s: last figures are held` };
    return { state: "live", age, text: "live" };
  }

  /** A total: how many services have no known part in it stands beside the sum of the others. */
  function drawTotal(id, pick, lost) {
    let sum = 0, unknown = 0;
    for (const row of rows.values()) {
      const value = pick(row);
      if (value === null) unknown++;
      else sum += value;
    }
    const blind = lost || unknown === rows.size;
    put(at(id), blind ? "unknown" : unknown ? `${figure(sum)} + ${unknown} ?` : figure(sum));
    at(id).title = !blind && unknown ? `not known of ${unknown} services` : "";
  }

  function drawTotals(state) {
    const lost = state.state === "lost";
    put(at("time-name"), dated(now) ? "Time, UTC" : "Time");
    put(at("total-time"), rows.size ? clock(now, true) : "–");
    put(at("total-speed"), !rows.size ? "–" : Math.abs(speed - 1) < 0.01 ? "live" : `×${figure(speed)}`);
    put(at("total-services"), rows.size ? String(rows.size) : "–");
    if (!rows.size) return;
    drawTotal("total-load", (row) => row.load_rps, lost);
    drawTotal("total-needs", (row) => row.needs, lost);
    drawTotal("total-ready", (row) => row.ready, lost);
    drawTotal("total-starting", (row) => row.starting, lost);
  }

  function drawStanding() {
    const { leading, holder, frozen } = standing, node = at("standing");
    const leads = holder ? `${holder} leads; ask there for figures.` : "Nobody leads at the moment.";
    const words = leading ? "" : `This replica does not lead and decides nothing. ${leads}`;
    put(node, [words, frozen ? "Frozen: everything is decided and recorded, nothing is acted upon." : ""].join(" ").trim());
    node.hidden = leading && !frozen;
    mark(node, "tone", frozen ? "warn" : "info");
    put(at("empty"), leading ? "Waiting for the first readings." : "No figures here.");
  }

  function draw() {
    dirty = false;
    const state = link();
    document.body.dataset.link = state.ended ? "ended" : state.state;
    at("link").dataset.state = state.ended ? "ended" : state.state;
    put(at("link-text"), state.text);
    at("empty").hidden = rows.size > 0;
    drawTotals(state);
    let ahead = 0;
    for (const { frame } of services.values()) ahead = Math.max(ahead, frame.forecast_ahead_s);
    const first = began ?? now, to = now + Math.min(ahead, (spanS || Math.max(now - first, 900)) / 4);
    const from = spanS ? Math.max(Math.min(first, now - 900), now - spanS) : Math.min(first, now - 900);
    for (const service of services.values()) service.draw(state, from, to, now);
    if (many) table.draw(now, state);
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
      (many ? table.slot(frame.workload) : at("services")).append(one.node);
      seen.observe(one.node);
    }
    one.frame = frame;
    return one;
  }

  function close(name) {
    const one = services.get(name);
    if (!one) return;
    seen.unobserve(one.node);
    one.close();
    services.delete(name);
  }

  /** From here on a line each; the cards that were there stay open below theirs. */
  function becomeMany() {
    many = true;
    at("overview").hidden = false;
    for (const name of services.keys()) table.open.add(name);
    for (const name of fromAddress()) table.open.add(name);
    table.take([...rows.values()]);
    for (const [name, one] of services) table.slot(name).append(one.node);
    for (const [name, line] of table.lines) line.button.setAttribute("aria-expanded", String(table.open.has(name)));
    if (table.open.size) connect();
  }

  const fromAddress = () => location.hash.slice(1).split(",").filter(Boolean).map(decodeURIComponent);
  table.onOpen = () => {
    for (const name of [...services.keys()]) if (!table.open.has(name)) close(name);
    history.replaceState(null, "", `#${[...table.open].map(encodeURIComponent).join(",")}`);
    connect();
    stir();
  };

  function take(message, afresh) {
    [now, speed] = [message.now_s, message.speed];
    if (message.rows.length) lastFrame = performance.now() - 1000 * (message.quiet_s ?? 0);
    if (afresh) {
      const there = new Set(message.rows.map((row) => row.workload));
      for (const name of [...rows.keys()]) if (!there.has(name)) forget(name);
    }
    for (const row of message.rows) {
      if (began === null) began = row.now_s;
      rows.set(row.workload, row);
    }
    if (many) table.take(message.rows);
    else if (rows.size > FEW) becomeMany();
    for (const frame of message.frames) {
      const { workload } = frame;
      if (many && !table.open.has(workload)) continue;
      const points = message.points[workload] || [];
      if (afresh && points.length) began = Math.min(began, points[0][0]);
      service(frame).learn(points, message.decisions[workload] || [], afresh);
    }
    stir();
  }

  function forget(name) {
    close(name);
    rows.delete(name);
    table.forget(name);
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

  function connect() {
    if (stream) stream.close();
    const shown = [...table.open].map((name) => `show=${encodeURIComponent(name)}`).join("&");
    const mine = new EventSource(many ? `events?${shown || "show="}` : "events");
    const on = (kind, handle) => mine.addEventListener(kind, (event) => { if (stream === mine) handle(event.data && JSON.parse(event.data)); });
    stream = mine;
    on("open", () => { connected = true; stir(); });
    on("error", () => {
      connected = false;
      if (ended !== null) mine.close();
      stir();
    });
    on("pools", (message) => pools.draw(message));
    on("batch", (message) => batch.draw(message));
    on("snapshot", (message) => {
      stand(message.standing);
      pools.draw(message.pools);
      batch.draw(message.batch);
      take(message, true);
      at("results").replaceChildren();
      message.results.forEach(results);
      if (message.ended !== null) finish(message.ended);
    });
    on("update", (message) => take(message, false));
    on("gone", (message) => forget(message.workload));
    on("standing", stand);
    on("results", results);
    on("end", (message) => finish(message.why));
  }
  function stand(told) {
    standing = told;
    drawStanding();
    stir();
  }
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
  connect();
  stir();
})();
