"use strict";
/* The report's charts: every run over the same time, with one cursor and one zoom for all. */
(() => {
  const { make, clock, figure } = Charts, content = JSON.parse(document.getElementById("content").textContent);
  const { x, load, optimum, slo_wait_s: slo } = content, end = content.duration_s, runs = [];
  let shown = [0, end];

  function legend(host, title, rows) {
    if (!host.children.length) {
      host.append(document.createElement("h3"));
      for (const [label, ink, kind] of rows) {
        const one = document.createElement("span"), swatch = document.createElement("i");
        swatch.className = `swatch ${kind}`;
        swatch.style.borderColor = `var(${ink})`;
        if (kind === "area") swatch.style.background = `color-mix(in srgb, var(${ink}) 22%, transparent)`;
        one.append(swatch, `${label} `, document.createElement("b"));
        host.append(one);
      }
    }
    host.children[0].textContent = title;
    rows.forEach((row, i) => { host.children[i + 1].querySelector("b").textContent = row[3]; });
  }

  const mean = (row) => row.reduce((sum, value) => sum + (value ?? 0), 0) / Math.max(1, row.length);
  const most = (row) => row.reduce((top, value) => Math.max(top, value ?? 0), 0);

  function card(run, index) {
    const host = document.getElementById(`run-${index}`), find = (key) => [host.querySelector(`[data-legend="${key}"]`), host.querySelector(`[data-plot="${key}"]`)];
    const band = run.forecast, held = x.map((_at, i) => run.ready[i] + run.starting[i]);
    const best = optimum ? [{ label: "optimum", ink: "--bad", step: true, width: 1, dash: [3, 3] }] : [];
    const [tall, low] = innerWidth <= 640 ? [140, 90] : [150, 92];
    const zoom = (span) => { shown = span ? [Math.max(0, span[0]), Math.min(end, span[1])] : [0, end]; runs.forEach((one) => one.draw()); };
    const common = { sync: "all", zoom, legend: (i) => say(i) };
    const charts = {
      load: make(find("load")[1], { ...common, height: () => tall, series: [{ label: "load", ink: "--load", width: 1.25 }, { label: "capacity", ink: "--ready", step: true, width: 1.25 }] }),
      replicas: make(find("replicas")[1], { ...common, height: () => tall, whole: true, floorTop: 2, between: { series: [1, 2], fill: "--start-fill" }, series: [
        { label: "starting", ink: "--start", step: true, width: 1 }, { label: "ready", ink: "--ready", fill: "--ready-fill", step: true, width: 1.25 },
        { label: "desired", ink: "--order", step: true, width: 1 }, ...best] }),
      wait: make(find("wait")[1], { ...common, height: () => low, axis: true, floorTop: slo * 1.25, limit: () => slo, series: [{ label: "longest wait", ink: "--queue", fill: "--queue-fill", width: 1.25 }] }),
    };
    const known = (row) => row.filter((value) => value !== null);
    /** The band at one instant, or on the mean; a dash where nothing was forecast for it. */
    function foreseen(second) {
      const k = second === null ? null : band.x.findLastIndex((at) => at <= second), of = (row) => (k === null ? mean(known(row)) : row[k] ?? null);
      const [low, high] = [of(band.low), of(band.high)];
      return low === null || high === null ? "–" : `${k === null ? "mean " : ""}${figure(low)}–${figure(high)}`;
    }
    function say(i) {
      const at = i === null || i === undefined ? "" : ` at ${clock(x[i], true)}`, pick = (row, total) => figure(at ? row[i] : total(row)), per = at ? "" : "mean ", top = at ? "" : "most ";
      const ahead = band ? [["forecast", "--band-edge", "area", foreseen(at ? x[i] : null)]] : [];
      legend(find("load")[0], `Load, req/s${at}`, [["load", "--load", "", per + pick(load, mean)], ...ahead, ["capacity", "--ready", "", per + pick(run.capacity, mean)]]);
      const rows = [["ready", "--ready", "area", per + pick(run.ready, mean)], ["starting", "--start", "area", per + pick(run.starting, mean)], ["desired", "--order", "", per + pick(run.desired, mean)]];
      if (optimum) rows.push(["optimum's bill", "--bad", "dash", per + pick(optimum, mean)]);
      legend(find("replicas")[0], "Replicas", rows);
      legend(find("wait")[0], "Longest wait, s", [["wait", "--queue", "", top + pick(run.wait, most)], ["objective", "--bad", "dash", figure(slo)], ["queue", "--queue", "", top + pick(run.waiting, most)]]);
    }
    function draw() {
      const view = { x, from: shown[0], to: shown[1], now: null, band: null, blind: [] };
      charts.load.set({ ...view, rows: [load, run.capacity], band });
      charts.replicas.set({ ...view, rows: [held, run.ready, run.desired, ...(optimum ? [optimum] : [])] });
      charts.wait.set({ ...view, rows: [run.wait] });
      say(null);
    }
    charts.load.say(`${run.label}: load against the capacity that is ready, over ${clock(end)}`);
    charts.replicas.say(`${run.label}: replicas ready, starting and desired; ${figure(mean(run.ready))} ready on average`);
    charts.wait.say(`${run.label}: longest wait ${figure(most(run.wait))} s, objective ${figure(slo)} s`);
    return { draw };
  }

  content.runs.forEach((run, index) => runs.push(card(run, index)));
  const near = new IntersectionObserver((rows) => rows.forEach((row) => {
    if (!row.isIntersecting) return;
    near.unobserve(row.target);
    runs[Number(row.target.id.slice(4))].draw();
  }), { rootMargin: "600px" });
  content.runs.forEach((_run, index) => near.observe(document.getElementById(`run-${index}`)));
  addEventListener("beforeprint", () => runs.forEach((one) => one.draw()));
  document.getElementById("whole").addEventListener("click", () => { shown = [0, end]; runs.forEach((one) => one.draw()); });
})();
