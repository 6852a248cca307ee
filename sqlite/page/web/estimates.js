// Estimates against measurements, and how workflows met their deadlines.
import {el, seconds, colour, legend, fit, ink, percent} from './text.js';

export function estimates(run) {
  const a = run.attempt, points = [];
  for (let i = 0; i < run.n; i++) {
    if (run.outcome(i) !== 'ok') continue;
    const took = run.stop[i] - a.queued[i] - a.staging[i];
    if (took > 0) points.push([run.secs(a.error[i] + took), run.secs(took), a.source[i]]);
  }
  const out = el('section', {'aria-label': 'Estimates'}, el('h2', {}, 'Estimates'));
  if (!points.length) return {draw() {}, node: el('section')};
  const sources = [...new Set(points.map(p => p[2]))];
  const errors = sources.map(s => {
    const own = points.filter(p => p[2] === s).map(p => Math.abs(p[0] - p[1]) / p[1]).sort((x, y) => x - y);
    return `${run.sources[s] || 'unknown'}: median error ${percent(own[Math.floor(own.length / 2)])} of ${own.length}`;
  });
  const canvas = el('canvas', {role: 'img', 'aria-label': 'Estimated against measured times. ' + errors.join(', ')});
  const draw = () => {
    const [x, width] = fit(canvas, 320), size = Math.min(300, width - 80), left = 60;
    const most = points.reduce((m, p) => Math.max(m, p[0], p[1]), 0) * 1.2, least = Math.max(1e-3, points.reduce((m, p) => Math.min(m, p[1]), most) / 2);
    const at = v => Math.log(Math.max(v, least) / least) / Math.log(most / least);
    x.clearRect(0, 0, width, 320);
    x.strokeStyle = ink('soft');
    x.strokeRect(left, 0, size, size);
    x.beginPath(); x.moveTo(left, size); x.lineTo(left + size, 0); x.stroke();
    for (const [estimate, took, source] of points.length > 20000 ? points.filter((_, i) => i % Math.ceil(points.length / 20000) === 0) : points) {
      x.fillStyle = colour(source);
      x.fillRect(left + at(took) * size - 1.5, size - at(estimate) * size - 1.5, 3, 3);
    }
    x.fillStyle = ink('soft');
    x.fillText(seconds(most), 4, 12); x.fillText(seconds(least), 4, size);
    x.fillText('measured →', left + size - 70, size + 15); x.fillText('estimated ↑', left + 4, 14);
  };
  out.append(el('p', {class: 'note'}, errors.join('; ') + '. On the line an estimate is exact; both axes are logarithmic.'), el('figure', {}, canvas,
    legend(sources.map(s => [run.sources[s] || 'unknown', colour(s)]))));
  addEventListener('resize', draw);
  return {draw, node: out};
}

export function flows(run) {
  if (run.workflows.length < 2 && !run.workflows.some(w => w.due !== null)) return el('section');
  const late = run.workflows.filter(w => w.due !== null && w.ended !== null && w.ended > w.due).length, dued = run.workflows.filter(w => w.due !== null).length;
  const s = v => v === null ? '–' : seconds(run.secs(v));
  return el('section', {'aria-label': 'Workflows'}, el('h2', {}, 'Workflows'),
    dued ? el('p', {}, `${late} of ${dued} workflows with a deadline were late.`) : null,
    el('div', {class: 'scroll', tabindex: 0, style: {'max-height': '420px'}}, el('table', {},
      el('thead', {}, el('tr', {}, ...['workflow', 'tenant', 'class', 'state', 'tasks', 'arrived', 'ended', 'due', 'lateness'].map((h, i) => el('th', {scope: 'col', class: i > 3 && 'n'}, h)))),
      el('tbody', {}, ...run.workflows.slice(0, 2000).map(w => el('tr', {}, ...[w.name, w.tenant || '', w.class, w.state].map(v => el('td', {}, v)),
        ...[String(w.tasks), s(w.arrived), s(w.ended), s(w.due), w.due !== null && w.ended !== null ? s(w.ended - w.due) : '–'].map(v => el('td', {class: 'n'}, v))))))),
    run.workflows.length > 2000 ? el('p', {class: 'note'}, `The first 2000 of ${run.workflows.length} workflows.`) : null);
}
