// What the nodes had to do over time, and why tasks waited.
import {el, seconds, bytes, perSecond, colour, legend, percent, choice, table, box, ink} from './text.js';
import {chart, area, line} from './chart.js';

const spans = 400;

// sums adds what each attempt has, over spans of time: amount(i) from an instant to the end.
function sums(run, node, end, from, amount) {
  const out = new Float64Array(spans), width = Math.max(end - run.begin, 1) / spans, a = run.attempt;
  for (let i = 0; i < run.n; i++) {
    if (a.node[i] < 0 || node >= 0 && a.node[i] !== node) continue;
    const v = amount(i), s = (from(i) - run.begin) / width, e = (run.stop[i] - run.begin) / width;
    if (!v || e <= s) continue;
    for (let k = Math.max(0, Math.floor(s)); k <= e && k < spans; k++) out[k] += v * Math.max(0, Math.min(e, k + 1) - Math.max(s, k));
  }
  return out;
}

const mean = v => v.reduce((s, x) => s + x, 0) / spans;
const least = (nodes, name) => nodes.some(n => n[name] === null) ? null : nodes.reduce((s, n) => s + n[name], 0);

// resources are what nodes have: capacity, what tasks held, what they used, and how to write it.
const resources = [
  {name: 'Cores', hold: '#3b78b566', use: '#3b78b5', used: 'CPU time used (mean of each attempt)', value: v => `${+v.toPrecision(3)} ${v === 1 ? 'core' : 'cores'}`, capacity: nodes => nodes.reduce((s, n) => s + n.millicores / 1000, 0),
    held: (run, i) => run.attempt.cores[i] / 1000, takes: (run, i) => run.knows(i, 'cpu') && run.attempt.run[i] > 0 ? run.attempt.cpu[i] / run.attempt.run[i] : 0},
  {name: 'Memory', hold: '#4f9d6966', use: '#4f9d69', used: 'used (peak of each attempt)', value: bytes, capacity: nodes => least(nodes, 'memory'),
    held: (run, i) => run.attempt.memory[i] * 1000, takes: (run, i) => run.knows(i, 'memory') ? run.attempt.peak[i] * 1000 : 0},
  {name: 'Disk', hold: '#e3913966', use: '#e39139', used: 'read and written (mean of each attempt)', value: perSecond, capacity: nodes => least(nodes, 'disk'),
    held: (run, i) => run.attempt.disk[i] * 1000, takes: (run, i) => run.knows(i, 'disk') && run.attempt.run[i] > 0 ? (run.attempt.read[i] + run.attempt.written[i]) * 1000 / run.secs(run.attempt.run[i]) : 0},
];

export function utilisation(run, page) {
  let node = -1;
  const out = el('div'), body = el('div'), by = el('div', {class: 'tools'});
  const end = () => page.span ? page.span[1] : run.end;
  const parts = resources.map(r => {
    const note = el('figcaption');
    let held, used, capacity;
    const c = chart(128, () => {
      const nodes = node < 0 ? run.nodes : [run.nodes[node]];
      capacity = r.capacity(nodes);
      held = sums(run, node, end(), i => run.attempt.queued[i], i => r.held(run, i));
      used = sums(run, node, end(), i => run.start[i], i => r.takes(run, i));
      const most = Math.max(capacity || 0, held.reduce((m, v) => Math.max(m, v), 0), used.reduce((m, v) => Math.max(m, v), 0)), share = v => capacity ? ` (${percent(v / capacity)})` : '';
      const text = `${r.name}: ${capacity === null ? 'no limit' : r.value(capacity)}; on average ${r.value(mean(held))} held${share(mean(held))}` + (most && mean(used) ? `, ${r.value(mean(used))} used${share(mean(used))}` : '');
      note.textContent = text + '.';
      return {x: [run.secs(run.begin), run.secs(end())], y: [0, (most || 1) * 1.04], value: r.value, label: text,
        at: t => { const k = Math.min(spans - 1, Math.max(0, Math.floor((t - run.secs(run.begin)) / run.secs(end() - run.begin) * spans))); return `${seconds(t)}\n${r.value(held[k])} held\n${r.value(used[k])} used`; }};
    }, (x, f) => {
      area(x, f, null, held, r.hold);
      area(x, f, null, used, r.use);
      if (capacity) line(x, f, [[f.x[0], capacity], [f.x[1], capacity]], ink('soft'), 1.4, [5, 3]);
    });
    return {c, node: el('figure', {}, note, c.canvas, legend([['capacity', 'var(--soft)', 'line'], ['held by tasks', r.hold], [r.used, r.use]]))};
  });
  const draw = () => parts.forEach(p => p.c.draw());
  out.append(by, body, ...parts.map(p => p.node));
  return {node: out, refresh() {
    by.replaceChildren(...(run.nodes.length > 1 ? [choice('of', [[-1, 'all nodes'], ...run.nodes.map((n, i) => [i, n.name])], v => { node = +v; draw(); })] : []));
    if (by.firstChild) by.querySelector('select').value = node;
    draw();
    const rows = () => run.nodes.map((n, k) => [n.name, ...resources.flatMap(r => [r.held, r.takes].map((f, w) => { const v = mean(sums(run, k, end(), i => w ? run.start[i] : run.attempt.queued[i], i => f(run, i))), c = r.capacity([n]); return r.value(v) + (c ? ` (${percent(v / c)})` : ''); }))]);
    const open = body.querySelector('details')?.open, fill = d => { if (d.open && !d.querySelector('table')) d.append(box('Utilisation of nodes', 320, table([['node'], ...resources.flatMap(r => [[r.name + ' held', 1], ['used', 1]])], rows()))); };
    const numbers = el('details', {open, on: {toggle: e => fill(e.target)}}, el('summary', {}, 'As a table'));
    fill(numbers);
    body.replaceChildren(numbers);
  }};
}

// stacked says how many tasks waited for each cause, on average over each of the spans of a run.
function stacked(run) {
  const bin = Math.max(1, run.end) / spans, rows = new Map(), a = run.attempt, w = run.wait;
  const add = (cause, from, to) => {
    if (!cause || to <= from) return;
    if (!rows.has(cause)) rows.set(cause, new Float64Array(spans));
    const row = rows.get(cause), s = from / bin, e = to / bin;
    for (let k = Math.floor(s); k <= e && k < spans; k++) row[k] += Math.max(0, Math.min(e, k + 1) - Math.max(s, k));
  };
  for (let i = 0; i < run.n; i++) if (run.knows(i, 'start')) add('it is being started', a.queued[i] + a.staging[i], run.start[i]);
  for (const [t, list] of run.waitsOf) {
    const first = run.attemptsOf.get(t)?.[0], ordered = first === undefined ? -1 : a.queued[first];
    list.forEach((k, n) => add(run.causes[w.reason[k]], w.since[k], Math.min(ordered >= w.since[k] ? ordered : run.end, n + 1 < list.length ? w.since[list[n + 1]] : Infinity)));
  }
  return {bin, causes: [...rows.keys()], tasks: [...rows.values()]};
}

export function waiting(run, page) {
  const none = el('p', {class: 'note'}, 'No task that was ready had to wait.'), key = el('div');
  let w = {causes: []};
  const long = () => w.bin * spans * run.scale, total = i => w.tasks[i].reduce((s, x) => s + x, 0) * w.bin * run.scale;
  const c = chart(150, () => {
    if (!w.causes.length) return null;
    const most = Math.max(1, ...Array.from({length: spans}, (_, k) => w.tasks.reduce((s, t) => s + t[k], 0)));
    return {x: [0, Math.max(long(), (page.span ? page.span[1] : 0) * run.scale)], y: [0, most * 1.04], value: v => `${+v.toPrecision(3)} ${v === 1 ? 'task' : 'tasks'}`,
      label: 'Tasks waiting over time. In all: ' + w.causes.map((r, i) => `${r} ${seconds(total(i))}`).join(', '),
      at: t => { const k = Math.min(spans - 1, Math.floor(t / (w.bin * run.scale))); return `${seconds(t)}\n` + w.causes.map((r, i) => w.tasks[i][k] ? `${+w.tasks[i][k].toPrecision(3)}: ${r}\n` : '').join(''); }};
  }, (x, f) => {
    let low = new Float64Array(spans);
    w.tasks.forEach((t, i) => { const high = low.map((v, k) => v + t[k]); area(x, {...f, x: [0, long()]}, low, high, colour(i)); low = high; });
  });
  const body = el('div'), figure = el('figure', {}, body, c.canvas, key);
  // The table has means over a twentieth of the run.
  const rows = () => Array.from({length: 20}, (_, k) => [seconds(k / 20 * long()), ...w.tasks.map(t => `${+(t.slice(k * spans / 20, (k + 1) * spans / 20).reduce((s, x) => s + x, 0) / (spans / 20)).toPrecision(3)}`)]);
  return {node: el('div', {}, none, figure), refresh() {
    w = stacked(run);
    const any = w.causes.length > 0;
    none.hidden = any;
    figure.hidden = !any;
    if (any) {
      key.replaceChildren(legend(w.causes.map((r, i) => [`${r}: ${seconds(total(i))} in all`, colour(i)])));
      const open = body.querySelector('details')?.open, fill = d => { if (d.open && !d.querySelector('table')) d.append(box('Tasks waiting', 320, table([['from'], ...w.causes.map(r => [r, 1])], rows()))); };
      const numbers = el('details', {open, on: {toggle: e => fill(e.target)}}, el('summary', {}, 'As a table'));
      fill(numbers);
      body.replaceChildren(numbers);
    }
    c.draw();
  }};
}
