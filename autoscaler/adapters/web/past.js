"use strict";
/* Plots of the past: every section over its own time, with one cursor and one zoom per section. */
(() => {
  const { make, clock, figure } = Charts, content = JSON.parse(document.getElementById("content").textContent);
  const mean = (row) => { const known = row.filter((value) => value !== null); return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null; };

  function legend(host, plot, title, values) {
    if (!host.children.length) {
      host.append(document.createElement("h3"));
      for (const series of plot.series) {
        const one = document.createElement("span"), swatch = document.createElement("i");
        swatch.className = `swatch ${series.dashed ? "dash" : series.fill ? "area" : ""}`;
        swatch.style.borderColor = `var(${series.ink})`;
        if (series.fill) swatch.style.background = `color-mix(in srgb, var(${series.ink}) 22%, transparent)`;
        one.append(swatch, `${series.label} `, document.createElement("b"));
        host.append(one);
      }
    }
    host.children[0].textContent = title;
    values.forEach((value, i) => { host.children[i + 1].querySelector("b").textContent = value; });
  }

  function section(past, index) {
    const host = document.getElementById(`past-${index}`), { x, plots } = past;
    if (!x.length) return { draw: () => {} };
    const whole = [x[0], x[x.length - 1]], tall = innerWidth <= 640 ? 130 : 150;
    let shown = whole, drawn = [];
    const zoom = (span) => { shown = span ? [Math.max(whole[0], span[0]), Math.min(whole[1], span[1])] : whole; draw(); };
    function say(i) {
      const at = i === null || i === undefined ? null : i;
      drawn.forEach(({ plot }) => {
        const values = plot.series.map(({ values: row }) => (at === null ? `mean ${figure(mean(row))}` : figure(row[at])));
        legend(host.querySelector(`[data-legend="${plot.key}"]`), plot, at === null ? plot.title : `${plot.title} at ${clock(x[at], true)}`, values);
      });
    }
    function draw() {
      for (const { chart, plot } of drawn) chart.set({ x, from: shown[0], to: shown[1], now: null, band: null, blind: [], rows: plot.series.map((s) => s.values) });
      say(null);
    }
    drawn = plots.map((plot, at) => ({
      plot,
      chart: make(host.querySelector(`[data-plot="${plot.key}"]`), {
        height: () => tall, sync: `past-${index}`, zoom, legend: say, whole: plot.whole, floorTop: plot.whole ? 2 : 0, axis: at === plots.length - 1,
        series: plot.series.map((s) => ({ label: s.label, ink: s.ink, fill: s.fill || undefined, step: s.step, width: 1.25, dash: s.dashed ? [3, 3] : undefined })),
      }),
    }));
    for (const { chart, plot } of drawn) chart.say(`${plot.title}: ${plot.series.map((s) => `${s.label} ${figure(mean(s.values))} on average`).join(", ")}`);
    return { draw };
  }

  const sections = content.map(section);
  const near = new IntersectionObserver((rows) => rows.forEach((row) => {
    if (!row.isIntersecting) return;
    near.unobserve(row.target);
    sections[Number(row.target.id.slice(5))].draw();
  }), { rootMargin: "600px" });
  content.forEach((_past, index) => near.observe(document.getElementById(`past-${index}`)));
  addEventListener("beforeprint", () => sections.forEach((one) => one.draw()));
})();
