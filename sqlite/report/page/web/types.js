// Box plots of attempts that ended well, by type of task.
import {el, svg, seconds, bytes, perSecond, percent, short, choice, table, box, ticks, clock} from './text.js';

// every has the columns: in units, and as a share of what was asked. A value is undefined if it was not measured. A rare
// one is shown if an attempt has it.
const every = [
  {name: 'time', write: seconds, axis: clock, value: (r, i) => r.secs(r.attempt.run[i]), share: (r, i) => r.knows(i, 'estimate') && r.estimate(i) > 0 ? (r.stop[i] - r.attempt.queued[i] - r.attempt.staging[i]) / r.estimate(i) : undefined, of: 'of the estimate'},
  {name: 'CPU time', write: seconds, axis: clock, value: (r, i) => r.knows(i, 'cpu') ? r.secs(r.attempt.cpu[i]) : undefined,
    share: (r, i) => r.knows(i, 'cpu') && r.attempt.run[i] > 0 && r.attempt.cores[i] > 0 ? r.attempt.cpu[i] / (r.attempt.run[i] * r.attempt.cores[i] / 1000) : undefined, of: 'of the cores asked'},
  {name: 'peak memory', write: bytes, value: (r, i) => r.knows(i, 'memory') ? r.attempt.peak[i] * 1000 : undefined, share: (r, i) => r.knows(i, 'memory') && r.attempt.memory[i] > 0 ? r.attempt.peak[i] / r.attempt.memory[i] : undefined, of: 'of the memory asked'},
  {name: 'I/O', write: bytes, value: (r, i) => r.knows(i, 'disk') ? (r.attempt.read[i] + r.attempt.written[i]) * 1000 : undefined,
    share: (r, i) => r.knows(i, 'disk') && r.attempt.run[i] > 0 && r.attempt.disk[i] > 0 ? (r.attempt.read[i] + r.attempt.written[i]) / r.secs(r.attempt.run[i]) / r.attempt.disk[i] : undefined, of: 'of the bandwidth asked'},
  {name: 'GPU time', rare: 'gpu', write: seconds, axis: clock, value: (r, i) => r.oddOf.get(i)?.gpu === undefined ? undefined : r.secs(r.oddOf.get(i).gpu),
    share: (r, i) => r.attempt.run[i] > 0 ? r.oddOf.get(i)?.gpu / r.attempt.run[i] : undefined, of: 'of the time'},
  {name: 'peak GPU memory', rare: 'gpu_peak', write: bytes, value: (r, i) => r.oddOf.get(i)?.gpu_peak, share: () => undefined, of: ''},
];

function quartiles(values) {
  values.sort((x, y) => x - y);
  const q = p => { const at = (values.length - 1) * p, i = Math.floor(at); return values[i] + (at - i) * ((values[i + 1] ?? values[i]) - values[i]); };
  return [values[0], q(0.25), q(0.5), q(0.75), values.at(-1)];
}

const wide = 240, pad = 8;

function plot(q, most, fill, text) {
  const x = v => pad + (wide - 2 * pad) * v / (most || 1);
  return svg('svg', {viewBox: `0 0 ${wide} 18`, class: 'plot', role: 'img', 'aria-label': text}, svg('title', {}, text),
    svg('line', {x1: x(q[0]), x2: x(q[4]), y1: 9, y2: 9, stroke: 'currentColor'}), ...[q[0], q[4]].map(v => svg('line', {x1: x(v), x2: x(v), y1: 6, y2: 12, stroke: 'currentColor'})),
    svg('rect', {x: x(q[1]), y: 3.5, width: Math.max(1.5, x(q[3]) - x(q[1])), height: 11, fill, stroke: 'currentColor', 'stroke-width': 0.6}),
    svg('line', {x1: x(q[2]), x2: x(q[2]), y1: 2, y2: 16, stroke: 'currentColor', 'stroke-width': 2.2}));
}

function axis(most, write) {
  const x = v => pad + (wide - 2 * pad) * v / (most || 1);
  return svg('svg', {viewBox: `0 0 ${wide} 20`, class: 'plot', 'aria-hidden': 'true'}, svg('line', {x1: pad, x2: wide - pad, y1: 18.5, y2: 18.5, stroke: 'currentColor', 'stroke-opacity': 0.5}),
    ...ticks(0, most, 3, false).map(t => svg('g', {}, svg('line', {x1: x(t), x2: x(t), y1: 14, y2: 18.5, stroke: 'currentColor', 'stroke-opacity': 0.5}),
      svg('text', {x: x(t), y: 11, 'text-anchor': t === 0 ? 'start' : x(t) > wide - 26 ? 'end' : 'middle', 'font-size': 10.5, fill: 'currentColor', dx: t === 0 ? -pad + 2 : x(t) > wide - 26 ? pad - 2 : 0}, t === 0 ? '0' : write(t)))));
}

// memory is what tasks held, used and wasted by type, in GB·h, and what predicted limits saved against declared ones.
function memory(rows) {
  const sum = name => rows.reduce((s, m) => s + m[name], 0), all = {kind: 'all', held: sum('held'), used: sum('used'), wasted: sum('wasted'), saved: sum('saved')};
  const number = v => String(+v.toPrecision(3)), share = (v, of) => of > 0 ? ` (${percent(v / of)})` : '';
  return el('details', {}, el('summary', {}, `Memory: ${number(all.held)} GB·h held, ${number(all.used)} used${share(all.used, all.held)}, ${number(all.wasted)} wasted, ${number(all.saved)} saved against declared`),
    box('Memory by type', 420, table([['type'], ['GB·h held', 1], ['used', 1], ['wasted', 1], ['saved against declared', 1]],
      [all, ...rows].map(m => [short(m.kind, 60), number(m.held), number(m.used) + share(m.used, m.held), number(m.wasted), number(m.saved) + share(m.saved, m.held + m.saved)]))));
}

export function types(run) {
  let share = false;
  const body = el('div');
  function draw() {
    const measures = every.filter(m => !m.rare || run.odd.some(o => o[m.rare] !== undefined)), groups = new Map();
    for (let i = 0; i < run.n; i++) {
      if (run.outcome(i) !== 'ok' || run.attempt.node[i] < 0) continue;
      const k = run.kind(i);
      if (!groups.has(k)) groups.set(k, {n: 0, values: measures.map(() => [])});
      const g = groups.get(k);
      g.n++;
      measures.forEach((m, c) => { const v = (share ? m.share : m.value)(run, i); if (v !== undefined && isFinite(v)) g.values[c].push(v); });
    }
    const rows = [...groups].map(([k, g]) => ({k, n: g.n, all: g.values.map(v => v.length ? quartiles(v) : null)})).sort((x, y) => (y.all[0]?.[2] || 0) - (x.all[0]?.[2] || 0)).slice(0, 200);
    const most = measures.map((_, c) => Math.max(share ? 1 : 0, ...rows.map(r => r.all[c]?.[4] || 0)));
    const write = c => share ? percent : measures[c].write;
    if (!rows.length) { body.replaceChildren(el('p', {class: 'note'}, 'No attempt ended well so far.')); return; }
    const text = (c, q) => `median ${write(c)(q[2])}, middle half ${write(c)(q[1])} to ${write(c)(q[3])}, all ${write(c)(q[0])} to ${write(c)(q[4])}`;
    body.replaceChildren(box('Box plots by type', 560, el('table', {class: 'plots'}, el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'type'), el('th', {scope: 'col', class: 'n'}, 'ended ok'),
      ...measures.map((m, c) => el('th', {scope: 'col'}, share ? `${m.name}, ${m.of}` : m.name, rows.some(r => r.all[c]) && axis(most[c], share ? percent : m.axis ? m.axis(most[c]) : m.write))))),
    el('tbody', {}, ...rows.map(r => el('tr', {}, el('th', {scope: 'row'}, short(run.kinds[r.k], 40)), el('td', {class: 'n'}, String(r.n)),
      ...r.all.map((q, c) => el('td', {}, q ? plot(q, most[c], run.hue(r.k), `${run.kinds[r.k]}, ${measures[c].name}: ${text(c, q)}`) : el('span', {class: 'note'}, 'not measured')))))))),
    el('details', {}, el('summary', {}, 'As numbers'), box('Quartiles by type', 420, table([['type'], ['measure'], ['least', 1], ['first quartile', 1], ['median', 1], ['third quartile', 1], ['most', 1]],
      rows.flatMap(r => r.all.flatMap((q, c) => q ? [[short(run.kinds[r.k], 60), measures[c].name, ...q.map(write(c))]] : []))))));
  }
  return {node: el('div', {class: 'types'}, el('div', {class: 'tools'}, choice('show', [['', 'in units'], ['share', 'as a share of what was asked']], v => { share = v !== ''; draw(); })),
    el('p', {class: 'note'}, 'The box has the middle half of the attempts that ended well, the thick line is the median, the thin line has all of them.'), body, run.memory.length > 0 && memory(run.memory)), refresh: draw};
}
