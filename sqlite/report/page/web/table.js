// All attempts as a table that makes only the rows in sight.
import {el, seconds, bytes, perSecond, short, outcomes} from './text.js';

const rowHeight = 26;
const limit = (v, write) => v ? write(v) : v === 0 ? 'none' : '–';

// columnsOf lists the columns: [group, name, value of an attempt, how to write it]; those of few readers begin with a
// minus. null is not known.
function columnsOf(run) {
  const when = (i, what, v) => run.knows(i, what) ? v : null, a = () => run.attempt, s = name => i => run.secs(run.attempt[name][i]);
  const number = v => String(+v.toPrecision(4)), rate = v => limit(v, perSecond);
  const odd = (i, what, write) => run.oddOf.get(i)?.[what] === undefined ? null : write(run.oddOf.get(i)[what]);
  return [
    ['', 'task', i => run.label(run.attempt.task[i])], ['', 'type', i => run.kindName(i)], ['', 'try', i => a().try[i]], ['', 'node', i => run.nodeName(i)], ['', 'outcome', i => run.outcome(i)],
    ['when', 'ordered', s('queued'), seconds], ['when', 'waited', s('wait'), seconds], ['-when', 'staging', s('staging'), seconds], ['-when', 'start', s('begin'), seconds], ['when', 'ran', s('run'), seconds],
    ['when', 'estimate', i => when(i, 'estimate', run.secs(run.estimate(i))), seconds], ['-when', 'late', i => when(i, 'plan', run.secs(a().over[i])), seconds],
    ['cores', 'asked', i => a().cores[i] / 1000, number], ['-cores', 'applied', i => a().applied_cores[i] / 1000, v => limit(v, number)],
    ['cores', 'used', i => when(i, 'cpu', a().run[i] > 0 ? a().cpu[i] / a().run[i] : 0), number], ['-cores', 'CPU time', i => when(i, 'cpu', run.secs(a().cpu[i])), seconds],
    ['memory', 'asked', i => /memory/.test(run.imputations[run.task.imputed[a().task[i]]]) ? null : a().memory[i] * 1000, bytes], ['-memory', 'applied', i => a().applied_memory[i] * 1000, v => limit(v, bytes)], ['memory', 'peak', i => when(i, 'memory', a().peak[i] * 1000), bytes],
    ['-GPU', 'time', i => odd(i, 'gpu', run.secs), seconds], ['-GPU', 'peak', i => odd(i, 'gpu_peak', v => v), bytes],
    ['-disk', 'asked', i => a().disk[i] * 1000, rate], ['-disk', 'read limit', i => a().applied_read[i] * 1000, rate], ['-disk', 'write limit', i => a().applied_write[i] * 1000, rate],
    ['disk', 'read', i => when(i, 'disk', a().read[i] * 1000), bytes], ['disk', 'written', i => when(i, 'disk', a().written[i] * 1000), bytes],
  ];
}

export function tasks(run) {
  const every = columnsOf(run).map(([g, ...c]) => [g.replace('-', ''), ...c, g.startsWith('-')]);
  let columns = every;
  let order = [], sorted = 5, descending = false, shown = -1;
  const body = el('tbody'), frame = el('div', {class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Table of attempts'});
  let headers = [];
  const headersOf = () => columns.map(([, name, , format], c) => el('th', {scope: 'col', class: format && 'n'}, el('button', {type: 'button', on: {click: () => {
    descending = sorted === c ? !descending : false;
    sorted = c;
    sort();
  }}}, name)));
  const head = el('thead'), table = el('table', {'aria-label': 'Attempts'}, head, body);
  const all = el('button', {type: 'button', 'aria-pressed': 'false', on: {click: () => {
    const whole = all.getAttribute('aria-pressed') !== 'true';
    all.setAttribute('aria-pressed', String(whole));
    widen(whole);
    sort();
  }}}, 'all columns');
  function widen(whole) {
    const by = columns[sorted];
    columns = every.filter(c => whole || !c.at(-1));
    sorted = Math.max(0, columns.indexOf(by));
    headers = headersOf();
    const groups = [];
    for (const [g] of columns) { if (groups.length && groups.at(-1)[0] === g) groups.at(-1)[1]++; else groups.push([g, 1]); }
    head.replaceChildren(el('tr', {class: 'groups'}, ...groups.map(([g, n]) => el('th', {colspan: n, scope: 'colgroup'}, g))), el('tr', {}, ...headers));
  }
  widen(false);
  const status = el('span', {role: 'status'});
  const filter = el('input', {type: 'search', placeholder: 'filter by words', 'aria-label': 'Filter the table', on: {input: () => { frame.scrollTop = 0; select(); }}});

  function select() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    order = [];
    for (let i = 0; i < run.n; i++) if (!words.length || words.every(w => run.search[i].includes(w))) order.push(i);
    sort();
  }
  function sort() {
    const value = columns[sorted][2], keys = [], sign = descending ? -1 : 1;
    for (const i of order) keys[i] = value(i);
    order.sort((i, j) => {
      const x = keys[i], y = keys[j];
      if (x === null || y === null) return (x === null) - (y === null) || i - j;
      return sign * (x < y ? -1 : x > y ? 1 : 0) || i - j;
    });
    headers.forEach((h, c) => h.setAttribute('aria-sort', c === sorted ? descending ? 'descending' : 'ascending' : 'none'));
    show(true);
  }
  function show(all) {
    const first = Math.max(0, Math.floor(frame.scrollTop / rowHeight) - 10), last = Math.min(order.length, first + 60);
    if (!all && first === shown) return;
    shown = first;
    const space = n => el('tr', {'aria-hidden': 'true'}, el('td', {colspan: columns.length, style: {height: n * rowHeight + 'px', padding: 0, border: 0}}));
    const active = document.activeElement?.closest?.('tr.row')?.dataset.i;
    body.replaceChildren(...(first > 0 ? [space(first)] : []), ...order.slice(first, last).map((i, k) => el('tr', {class: 'row', tabindex: 0, 'data-i': i, 'aria-rowindex': first + k + 3,
      on: {click: () => run.choose(i), keydown: e => keys(e, i)}}, ...columns.map(([, name, value, format]) => {
      const v = value(i), text = v === null ? '–' : format ? format(v) : String(v);
      return el('td', {class: name === 'outcome' ? 'mark' : format && 'n', style: name === 'outcome' && {'--c': outcomes[v] || outcomes.failed}, title: text.length > 40 ? text.slice(0, 2000) : null}, short(text, 200));
    }))), ...(last < order.length ? [space(order.length - last)] : []));
    if (active !== undefined) body.querySelector(`tr[data-i="${active}"]`)?.focus({preventScroll: true});
    table.setAttribute('aria-rowcount', order.length + 2);
    status.textContent = `${order.length} of ${run.n} ${run.n === 1 ? 'attempt' : 'attempts'}`;
  }
  function keys(e, i) {
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); run.choose(i); return; }
    const step = {ArrowDown: 1, ArrowUp: -1}[e.key];
    const row = step && (step > 0 ? e.currentTarget.nextElementSibling : e.currentTarget.previousElementSibling);
    if (row?.classList.contains('row')) { e.preventDefault(); row.focus(); }
  }
  frame.append(table);
  frame.addEventListener('scroll', () => requestAnimationFrame(() => show(false)));
  addEventListener('beforeprint', () => { frame.scrollTop = 0; show(true); });
  return {node: el('div', {class: 'tasks'}, el('div', {class: 'tools'}, filter, status, all), frame,
    el('p', {class: 'note screen'}, 'A click on a heading sorts, one on a row shows all that is known of the task. A limit is “none” if the kernel had none, or could not say.'),
    el('p', {class: 'note print'}, 'On paper are the first rows only; gantry export writes all of them.')), refresh: select};
}
