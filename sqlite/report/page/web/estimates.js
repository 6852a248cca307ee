// Estimates against measurements, by source, and how the error went over time.
import {el, seconds, colour, legend, ink, percent, table, box, short} from './text.js';
import {chart, line} from './chart.js';

const median = list => { list.sort((x, y) => x - y); return list[Math.floor(list.length / 2)]; };
const thinned = (points, most) => points.length > most ? points.filter((_, i) => i % Math.ceil(points.length / most) === 0) : points;

export function estimates(run) {
  let points = [], sources = [];
  const out = el('div'), none = el('p', {class: 'note'}, 'No attempt ended well that had an estimate.'), numbers = el('div'), key = el('div');
  const name = s => run.sources[s] || 'unknown';
  const power = v => Math.log10(Math.max(v, 1e-4));
  const scatter = chart(330, () => {
    if (!points.length) return null;
    let low = Infinity, high = -Infinity;
    for (const p of points) { low = Math.min(low, power(p.estimate), power(p.took)); high = Math.max(high, power(p.estimate), power(p.took)); }
    const span = [Math.floor(low * 2 - 0.1) / 2, Math.ceil(high * 2 + 0.1) / 2], write = v => Number.isInteger(+v.toFixed(6)) ? seconds(10 ** v) : '';
    return {x: span, y: span, value: write, time: write, label: 'Estimated against measured times of attempts that ended well'};
  }, (x, f) => {
    line(x, f, [[f.x[0], f.x[0]], [f.x[1], f.x[1]]], ink('soft'), 1);
    for (const d of [0.30103, -0.30103]) line(x, f, [[f.x[0], f.x[0] + d], [f.x[1], f.x[1] + d]], ink('line'), 1, [4, 3]);
    for (const p of thinned(points, 6000)) { x.fillStyle = colour(sources.indexOf(p.source)); x.globalAlpha = 0.65; x.beginPath(); x.arc(f.px(power(p.took)), f.py(power(p.estimate)), 2.4, 0, 7); x.fill(); }
    x.globalAlpha = 1;
  });
  const over = chart(330, () => {
    if (!points.length) return null;
    const most = Math.max(1, Math.min(5, Math.ceil(points.reduce((m, p) => Math.max(m, Math.abs(p.ratio)), 0))));
    return {x: [run.secs(run.begin), run.secs(run.end)], y: [-most, most], value: v => v === 0 ? 'exact' : v > 0 ? `×${+(2 ** v).toPrecision(2)}` : `÷${+(2 ** -v).toPrecision(2)}`, label: 'Estimate over measured time, by when attempts ended, with the median of each twentieth of the run'};
  }, (x, f) => {
    line(x, f, [[f.x[0], 0], [f.x[1], 0]], ink('soft'), 1);
    for (const p of thinned(points, 6000)) { x.fillStyle = colour(sources.indexOf(p.source)); x.globalAlpha = 0.4; x.fillRect(f.px(p.at) - 1.5, f.py(Math.max(f.y[0], Math.min(f.y[1], p.ratio))) - 1.5, 3, 3); }
    x.globalAlpha = 1;
    sources.forEach((s, k) => {
      const bins = Array.from({length: 20}, () => []);
      for (const p of points) if (p.source === s) bins[Math.min(19, Math.floor((p.at - f.x[0]) / ((f.x[1] - f.x[0]) || 1) * 20))].push(p.ratio);
      line(x, f, bins.flatMap((b, i) => b.length ? [[f.x[0] + (i + 0.5) / 20 * (f.x[1] - f.x[0]), median(b)]] : []), colour(k), 2.2);
    });
  });
  const figures = el('div', {class: 'pair'}, el('figure', {}, el('figcaption', {}, 'Estimated (up) against measured time (right); on the line an estimate is exact, between the dashed lines it is within a factor of 2. Logarithmic.'), scatter.canvas),
    el('figure', {}, el('figcaption', {}, 'Error over time: estimate over measured time of each attempt when it ended, and medians.'), over.canvas));
  out.append(none, numbers, figures, key);
  return {node: out, refresh() {
    points = [];
    for (let i = 0; i < run.n; i++) {
      if (run.outcome(i) !== 'ok' || !run.knows(i, 'estimate') || run.attempt.node[i] < 0) continue;
      let took = run.stop[i] - run.attempt.queued[i] - run.attempt.staging[i];
      for (const k of run.awayOf.get(i) || []) took -= run.away.until[k] - run.away.since[k];
      const estimate = run.estimate(i);
      if (took > 0 && estimate > 0) points.push({estimate: run.secs(estimate), took: run.secs(took), ratio: Math.log2(estimate / took), at: run.secs(run.stop[i]), source: run.attempt.source[i]});
    }
    sources = [...new Set(points.map(p => p.source))].sort();
    none.hidden = points.length > 0;
    figures.hidden = !points.length;
    numbers.replaceChildren(...(points.length ? [box('Estimates by source', 320, table([['source'], ['attempts', 1], ['median error', 1], ['90 % are within', 1], ['mean of estimate / measured', 1]], sources.map(s => {
      const own = points.filter(p => p.source === s), errors = own.map(p => Math.abs(p.estimate - p.took) / p.took).sort((x, y) => x - y);
      return [name(s), String(own.length), percent(errors[Math.floor(own.length / 2)]), percent(errors[Math.floor(own.length * 0.9)]), (own.reduce((m, p) => m + p.estimate / p.took, 0) / own.length).toFixed(2)];
    })))] : []));
    key.replaceChildren(...(points.length ? [legend(sources.map((s, k) => [short(name(s)), colour(k)]))] : []));
    scatter.draw();
    over.draw();
  }};
}
