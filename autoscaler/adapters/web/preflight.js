"use strict";
/* The preflight report's charts: what was asked, step by step, with the floor, the top and the capacity beside it. */
(() => {
  const { make, clock, figure, dated } = Charts, content = JSON.parse(document.getElementById("content").textContent);

  /** Spans in which nothing is known, from the bins without a mean. */
  function holes(x, mean) {
    const spans = [], width = x.length > 1 ? x[1] - x[0] : 1;
    mean.forEach((value, i) => {
      if (value !== null) return;
      const last = spans[spans.length - 1];
      if (last && last[1] === x[i] - width) last[1] = x[i];
      else spans.push([x[i] - width, x[i], true]);
    });
    return spans;
  }

  function legend(host, title, rows) {
    host.replaceChildren();
    const head = document.createElement("h3");
    head.textContent = title;
    host.append(head);
    for (const [label, ink, kind, value] of rows) {
      const one = document.createElement("span"), swatch = document.createElement("i"), bold = document.createElement("b");
      swatch.className = `swatch ${kind}`;
      swatch.style.borderColor = `var(${ink})`;
      bold.textContent = value;
      one.append(swatch, `${label} `, bold);
      host.append(one);
    }
  }

  function card(key) {
    const told = content[key], { x, mean, most, capacity, floor, top, unit } = told;
    const plot = document.querySelector(`[data-plot="${key}"]`), words = document.querySelector(`[data-legend="${key}"]`);
    const width = x.length > 1 ? x[1] - x[0] : 1, begin = x[0] - width, end = x[x.length - 1], blind = holes(x, mean);
    let shown = [begin, end];
    const lines = [[most, "highest step", "--bound", "", 0.75], [mean, "mean", "--load", "", 1.5]];
    if (capacity) lines.push([capacity, "replicas carry", "--ready", "", 1.25]);
    if (top !== null) lines.push([x.map(() => top), "highest sustained", "--start", "dash", 1.25]);
    if (floor !== null) lines.push([x.map(() => floor), "floor", "--bad", "dash", 1.25]);
    const tall = innerWidth <= 640 ? 170 : 220;
    const chart = make(plot, {
      sync: key, axis: true, height: () => tall, legend: say, zoom: (span) => { shown = span ? [Math.max(begin, span[0]), Math.min(end, span[1])] : [begin, end]; draw(); },
      series: lines.map(([, label, ink, kind, thick]) => ({ label, ink, width: thick, step: label === "replicas carry", dash: kind ? [5, 4] : undefined })),
    });
    function say(i) {
      const at = i === null || i === undefined ? "" : ` at ${dated(x[i]) ? new Date(x[i] * 1000).toISOString().slice(0, 16).replace("T", " ") : clock(x[i])}`;
      legend(words, `${unit}${at}`, lines.map(([row, label, ink, kind]) => [label, ink, kind, at || kind ? figure(row[i ?? 0]) : ""]));
    }
    function draw() {
      chart.set({ x, rows: lines.map(([row]) => row), from: shown[0], to: shown[1], now: null, band: null, blind });
      say(null);
    }
    chart.say(`${unit} over time${floor === null ? "" : `; the floor is ${figure(floor)}`}${top === null ? "" : `, the highest sustained level ${figure(top)}`}`);
    return draw;
  }

  const waiting = new Set(Object.keys(content));
  function drawn(key) { if (waiting.delete(key)) card(key)(); }
  const near = new IntersectionObserver((rows) => rows.forEach((row) => {
    if (!row.isIntersecting) return;
    near.unobserve(row.target);
    drawn(row.target.dataset.plot);
  }), { rootMargin: "600px" });
  Object.keys(content).forEach((key) => near.observe(document.querySelector(`[data-plot="${key}"]`)));
  addEventListener("beforeprint", () => [...waiting].forEach(drawn));
})();
