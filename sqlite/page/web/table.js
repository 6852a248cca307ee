// All attempts as a table that makes only the rows in sight, and a table of types with box plots.
import {el, svg, seconds, bytes, colour, short} from './text.js';

export function tasks(run, select) {
  const a = run.attempt, rowHeight = 26;
  const when = (i, what, v) => run.knows(i, what) ? v : null;
  const columns = [
    ['task', i => run.fullName(i)], ['type', i => run.kinds[run.kind(i)]], ['try', i => a.try[i]], ['node', i => run.nodes[a.node[i]].name], ['outcome', i => run.outcome(i)],
    ['ordered', i => run.secs(a.queued[i]), seconds], ['waited', i => run.secs(a.wait[i]), seconds], ['ran', i => run.secs(a.run[i]), seconds],
    ['estimate', i => run.secs(a.error[i] + run.stop[i] - a.queued[i] - a.staging[i]), seconds], ['late', i => run.secs(a.over[i]), seconds],
    ['cores', i => a.cores[i] / 1000, String], ['CPU time', i => when(i, 'cpu', run.secs(a.cpu[i])), seconds],
    ['memory', i => a.memory[i] * 1000, bytes], ['peak', i => when(i, 'memory', a.peak[i] * 1000), bytes],
    ['read', i => when(i, 'disk', a.read[i] * 1000), bytes], ['written', i => when(i, 'disk', a.written[i] * 1000), bytes],
  ];
  let order = Array.from({length: run.n}, (_, i) => i), sorted = 5, descending = false;
  const body = el('tbody'), box = el('div', {class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Table of attempts'});
  const headers = columns.map(([name, , format], c) => el('th', {scope: 'col', class: format && 'n'}, el('button', {type: 'button', on: {click: () => {
    descending = sorted === c ? !descending : false;
    sorted = c;
    sort();
  }}}, name)));
  const table = el('table', {}, el('thead', {}, el('tr', {}, ...headers)), body);
  const status = el('span', {role: 'status'});
  function sort() {
    const value = columns[sorted][1], keys = new Map(order.map(i => [i, value(i)]));
    const sign = descending ? -1 : 1;
    order.sort((i, j) => {
      const x = keys.get(i), y = keys.get(j);
      if (x === null || y === null) return (x === null) - (y === null) || i - j;
      return sign * (x < y ? -1 : x > y ? 1 : 0) || i - j;
    });
    headers.forEach((h, c) => h.setAttribute('aria-sort', c === sorted ? descending ? 'descending' : 'ascending' : 'none'));
    show();
  }
  function show() {
    const first = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 10), last = Math.min(order.length, first + 60);
    const space = n => el('tr', {'aria-hidden': true}, el('td', {colspan: columns.length, style: {height: n * rowHeight + 'px', padding: 0, border: 0}}));
    body.replaceChildren(...(first > 0 ? [space(first)] : []), ...order.slice(first, last).map((i, k) => el('tr', {class: 'row', 'aria-rowindex': first + k + 2,
      on: {click: () => select.choose(i)}}, ...columns.map(([, value, format]) => {
      const v = value(i), text = v === null ? '–' : format ? format(v) : String(v);
      return el('td', {class: format && 'n', title: text.length > 40 ? text.slice(0, 2000) : null}, short(text, 200));
    }))), ...(last < order.length ? [space(order.length - last)] : []));
    table.setAttribute('aria-rowcount', order.length + 1);
    status.textContent = `${order.length} of ${run.n} attempts`;
  }
  const filter = el('input', {type: 'search', placeholder: 'filter', 'aria-label': 'Filter the table', on: {input: () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = [];
    for (let i = 0; i < run.n; i++) {
      const text = `${run.fullName(i)} ${run.kinds[run.kind(i)]} ${run.nodes[a.node[i]].name} ${run.outcome(i)}`.toLowerCase();
      if (words.every(w => text.includes(w))) order.push(i);
    }
    box.scrollTop = 0;
    sort();
  }}});
  box.append(table);
  box.addEventListener('scroll', () => requestAnimationFrame(show));
  sort();
  return el('section', {id: 'tasks', class: 'tasks', 'aria-label': 'Tasks'}, el('h2', {}, 'Tasks'), el('div', {class: 'tools'}, filter, status), box);
}

function quartiles(values) {
  values.sort((x, y) => x - y);
  const q = p => { const at = (values.length - 1) * p, i = Math.floor(at); return values[i] + (at - i) * ((values[i + 1] ?? values[i]) - values[i]); };
  return [values[0], q(0.25), q(0.5), q(0.75), values[values.length - 1]];
}

function boxPlot(q, most, c, text) {
  const x = v => 2 + 196 * v / (most || 1);
  return svg('svg', {viewBox: '0 0 200 16', width: 200, height: 16, role: 'img', 'aria-label': text},
    svg('line', {x1: x(q[0]), x2: x(q[4]), y1: 8, y2: 8, stroke: 'currentColor'}),
    svg('rect', {x: x(q[1]), y: 3, width: Math.max(1.5, x(q[3]) - x(q[1])), height: 10, fill: c}),
    svg('line', {x1: x(q[2]), x2: x(q[2]), y1: 2, y2: 14, stroke: 'currentColor', 'stroke-width': 2}));
}

export function types(run) {
  const a = run.attempt;
  const measures = {
    time: [i => run.secs(a.run[i]), seconds, () => true], 'CPU time': [i => run.secs(a.cpu[i]), seconds, i => run.knows(i, 'cpu')],
    'CPU time, of what was asked': [i => a.cpu[i] / (a.run[i] * a.cores[i] / 1000), v => Math.round(v * 100) + ' %', i => run.knows(i, 'cpu') && a.run[i] > 0 && a.cores[i] > 0],
    'peak memory': [i => a.peak[i] * 1000, bytes, i => run.knows(i, 'memory')],
    'peak memory, of what was asked': [i => a.peak[i] / a.memory[i], v => Math.round(v * 100) + ' %', i => run.knows(i, 'memory') && a.memory[i] > 0],
    read: [i => a.read[i] * 1000, bytes, i => run.knows(i, 'disk')], written: [i => a.written[i] * 1000, bytes, i => run.knows(i, 'disk')],
  };
  const body = el('tbody'), pick = el('select', {'aria-label': 'Measure', on: {change: draw}}, ...Object.keys(measures).map(m => el('option', {}, m)));
  function draw() {
    const [value, format, has] = measures[pick.value], groups = new Map();
    for (let i = 0; i < run.n; i++) {
      if (run.outcome(i) !== 'ok' || !has(i)) continue;
      const k = run.kind(i);
      if (!groups.has(k)) groups.set(k, []);
      groups.get(k).push(value(i));
    }
    const rows = [...groups].map(([k, v]) => [k, v.length, quartiles(v)]), most = Math.max(0, ...rows.map(r => r[2][4]));
    body.replaceChildren(...rows.sort((x, y) => y[2][2] - x[2][2]).slice(0, 200).map(([k, n, q]) => el('tr', {}, el('td', {}, short(run.kinds[k], 60)), el('td', {class: 'n'}, String(n)),
      ...q.map(v => el('td', {class: 'n'}, format(v))), el('td', {}, boxPlot(q, most, colour(k), `from ${format(q[0])} to ${format(q[4])}, median ${format(q[2])}`)))));
    if (!rows.length) body.append(el('tr', {}, el('td', {colspan: 8}, 'Nothing was measured.')));
  }
  draw();
  return el('section', {'aria-label': 'Task types'}, el('h2', {}, 'Task types'), el('div', {class: 'tools'}, pick), el('div', {class: 'scroll', tabindex: 0, style: {'max-height': '420px'}},
    el('table', {}, el('thead', {}, el('tr', {}, ...['type', 'ended ok', 'least', 'quarter', 'median', '3 quarters', 'most', ''].map((h, i) => el('th', {scope: 'col', class: i > 0 && i < 7 && 'n'}, h)))), body)));
}
