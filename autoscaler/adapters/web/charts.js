"use strict";
/* Time charts on uPlot, over seconds since 1970 or since the start of a simulation. Colours are names of CSS variables, read anew when the scheme changes. */
const Charts = (() => {
  const AXIS_PX = 46, RIGHT_PX = 28, MINUTE = 60, HOUR = 3600, DAY = 86400;
  const GAPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY];
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const EPOCH_FROM = 1e9, EPOCH_TO = 1e10;
  /** Whether a time counts from 1970; it is then shown in UTC, as explanations and records write it. */
  const dated = (seconds) => seconds >= EPOCH_FROM && seconds < EPOCH_TO;
  const day = (seconds) => new Date(seconds * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

  /** Seconds as a clock: 02:14 or 02:14:35; of a simulation with days in front from 24 h on. */
  function clock(seconds, withSeconds) {
    if (!Number.isFinite(seconds)) return "–";
    if (dated(seconds)) return new Date(seconds * 1000).toISOString().slice(11, withSeconds ? 19 : 16);
    const day = Math.floor(seconds / DAY), rest = seconds - day * DAY;
    const text = `${two(rest / HOUR)}:${two((rest % HOUR) / MINUTE)}` + (withSeconds ? `:${two(rest % MINUTE)}` : "");
    return day > 0 ? `${day}d ${text}` : text;
  }

  /** A time that may be long ago: the date in the place of the clock from a day on. */
  const moment = (seconds, now) => (dated(seconds) && now - seconds >= DAY ? day(seconds) : clock(seconds, true));
  const tick = (seconds) => (dated(seconds) && seconds % DAY === 0 ? day(seconds) : clock(seconds));

  /** A figure for a person: three digits that mean something, "–" for what is not known. */
  function figure(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size >= 10000) return `${(value / 1000).toFixed(size >= 100000 ? 0 : 1)}k`;
    return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
  }

  function niceTop(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value) * power;
  }

  function largest(rows, from, to, x) {
    let top = 0;
    for (const row of rows) {
      for (let i = 0; i < row.length; i++) {
        if (x[i] >= from && x[i] <= to && row[i] > top) top = row[i];
      }
    }
    return top;
  }

  /**
   * A chart. spec: {height, series: [{label, ink, fill, width, step, dash}], between: {series, fill}, sync, axis, tick,
   * whole, floorTop, limit, legend: (index|null) => void, zoom: ([from, to]|null) => void}. `set(view)` draws {x, rows, from, to, now, band, blind}:
   * band = {x, low, high} may lie beyond now; blind = [[from, to, unknown?], …] are spans without fresh readings.
   */
  function make(host, spec) {
    let view = { x: [], rows: spec.series.map(() => []), from: 0, to: 1, now: null, band: null, blind: [] };
    let plot = null, top = 0;

    function topOf() {
      let want = largest(view.rows, view.from, view.to, view.x);
      if (view.band) want = Math.max(want, largest([view.band.high], view.from, view.to, view.band.x));
      want = niceTop(Math.max(want * 1.08, spec.floorTop || 0));
      if (want > top || want < top * 0.6) top = want;  // steady while it fits: an axis that breathes cannot be read
      return top;
    }

    function hatch(ctx, left, right, box, strong) {
      ctx.fillStyle = ink("--blind");
      ctx.fillRect(left, box.top, right - left, box.height);
      ctx.beginPath();
      ctx.rect(left, box.top, right - left, box.height);
      ctx.clip();
      ctx.strokeStyle = ink("--faint");
      ctx.globalAlpha = strong ? 0.55 : 0.28;
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      for (let at = left - box.height; at < right; at += 8 * devicePixelRatio) {
        ctx.moveTo(at, box.top + box.height);
        ctx.lineTo(at + box.height, box.top);
      }
      ctx.stroke();
    }

    function under(u) {
      const { ctx, bbox: box } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(box.left, box.top, box.width, box.height);
      ctx.clip();
      for (const [from, to, unknown] of view.blind) {
        ctx.save();
        hatch(ctx, u.valToPos(from, "x", true), u.valToPos(to, "x", true), box, unknown);
        ctx.restore();
      }
      if (view.band) drawBand(u, ctx, view.band);
      ctx.restore();
    }

    function drawBand(u, ctx, band) {
      const spot = (i, row) => [u.valToPos(band.x[i], "x", true), u.valToPos(row[i], "y", true)];
      let i = 0;
      while (i < band.x.length) {
        while (i < band.x.length && (band.high[i] === null || band.low[i] === null)) i++;
        const first = i;
        while (i < band.x.length && band.high[i] !== null && band.low[i] !== null) i++;
        if (i - first < 2) continue;
        ctx.beginPath();
        for (let k = first; k < i; k++) ctx.lineTo(...spot(k, band.high));
        const edge = new Path2D();
        for (let k = first; k < i; k++) edge.lineTo(...spot(k, band.high));
        for (let k = i - 1; k >= first; k--) ctx.lineTo(...spot(k, band.low));
        ctx.closePath();
        ctx.fillStyle = ink("--band");
        ctx.fill();
        ctx.strokeStyle = ink("--band-edge");
        ctx.lineWidth = devicePixelRatio;
        ctx.stroke(edge);
      }
    }

    function over(u) {
      const { ctx, bbox: box } = u;
      ctx.save();
      ctx.lineWidth = devicePixelRatio;
      if (view.now !== null && view.now < view.to) {
        const at = Math.round(u.valToPos(view.now, "x", true)) + 0.5;
        ctx.strokeStyle = ink("--line-strong");
        ctx.beginPath();
        ctx.moveTo(at, box.top);
        ctx.lineTo(at, box.top + box.height);
        ctx.stroke();
      }
      if (spec.limit && spec.limit() <= top) {
        const at = Math.round(u.valToPos(spec.limit(), "y", true)) + 0.5;
        ctx.strokeStyle = ink("--bad");
        ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(box.left, at);
        ctx.lineTo(box.left + box.width, at);
        ctx.stroke();
      }
      ctx.restore();
    }

    function options() {
      const font = "11px system-ui, sans-serif";
      const axis = { font, stroke: () => ink("--muted"), grid: { stroke: () => ink("--line"), width: 1 }, ticks: { show: false } };
      return {
        width: Math.max(host.clientWidth, 80), height: spec.height(), legend: { show: false }, padding: [8, RIGHT_PX, spec.axis ? 0 : 6, 0],
        cursor: { sync: { key: spec.sync, setSeries: false }, drag: { x: Boolean(spec.zoom), y: false, setScale: false }, points: { show: false }, y: false },
        scales: { x: { time: false, range: () => [view.from, view.to] }, y: { range: () => [0, topOf()] } },
        axes: [
          { ...axis, show: true, size: spec.axis ? 24 : 0, gap: 4, space: 64, incrs: GAPS_S, values: (_u, at) => at.map((s) => (spec.axis ? (spec.tick ?? tick)(s) : "")) },
          { ...axis, size: AXIS_PX, gap: 6, space: 30, values: (_u, at) => at.map((v) => (spec.whole && !Number.isInteger(v) ? "" : figure(v))) },
        ],
        series: [{}, ...spec.series.map((line) => ({
          label: line.label, width: line.width ?? 1.5, stroke: () => ink(line.ink), fill: line.fill ? () => ink(line.fill) : undefined,
          dash: line.dash, points: { show: false }, paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
        }))],
        bands: spec.between ? [{ series: spec.between.series, fill: () => ink(spec.between.fill) }] : [],
        hooks: { drawAxes: [under], draw: [over], setCursor: [(u) => spec.legend && spec.legend(u.cursor.idx ?? null)], setSelect: [pick] },
      };
    }

    function pick(u) {
      const { left, width } = u.select;
      if (!spec.zoom || width < 6) return;
      spec.zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }

    const data = () => [view.x, ...view.rows];
    function build() {
      if (plot) plot.destroy();
      plot = new uPlot(options(), data(), host);
    }
    function closer(nearer) {
      const half = (view.to - view.from) / 4, at = view.x[plot.cursor.idx] ?? (view.from + view.to) / 2;
      spec.zoom(nearer ? [at - half, at + half] : null);
      queueMicrotask(() => plot.setCursor({ left: plot.valToPos(at, "x"), top: 0 })); // once uPlot has set its scale
    }
    function walk(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!plot || !view.x.length || event.ctrlKey || event.metaKey || event.altKey) return;
      if (spec.zoom && "+-".includes(event.key)) return closer(event.key === "+");
      if (!step) return;
      event.preventDefault();
      const first = view.x.findIndex((at) => at >= view.from);
      const at = Math.min(view.x.length - 1, Math.max(first, (plot.cursor.idx ?? view.x.length) + step * (event.shiftKey ? 10 : 1)));
      plot.setCursor({ left: plot.valToPos(view.x[at], "x"), top: 0 });
    }
    host.tabIndex = 0;
    host.setAttribute("role", "img");
    host.style.height = `${spec.height()}px`;
    host.addEventListener("keydown", walk);
    if (spec.zoom) host.addEventListener("dblclick", () => spec.zoom(null));
    const resized = new ResizeObserver(() => {
      if (!plot || (plot.width === host.clientWidth && plot.height === spec.height())) return;
      host.style.height = `${spec.height()}px`;
      plot.setSize({ width: Math.max(host.clientWidth, 80), height: spec.height() });
    });
    resized.observe(host);
    const scheme = matchMedia("(prefers-color-scheme: dark)"), recolour = () => plot && plot.redraw();
    scheme.addEventListener("change", recolour);
    return {
      set(next) {
        view = next;
        if (plot) plot.setData(data());
        else build();
      },
      say(text) { host.setAttribute("aria-label", text); },
      destroy() {
        resized.disconnect();
        scheme.removeEventListener("change", recolour);
        if (plot) plot.destroy();
      },
    };
  }
  return { make, clock, moment, dated, figure };
})();
