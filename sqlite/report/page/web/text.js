// Elements, numbers and colours. Text from the log reaches the page as text nodes only.

export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === 'on') for (const [event, f] of Object.entries(v)) e.addEventListener(event, f);
    else if (k === 'style') for (const [p, x] of Object.entries(v || {})) e.style.setProperty(p, x);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.filter(c => c !== undefined && c !== null && c !== false));
  return e;
}

export function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === 'on') for (const [event, f] of Object.entries(v)) e.addEventListener(event, f);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.filter(Boolean));
  return e;
}

export const button = (text, label, act, more) => el('button', {type: 'button', 'aria-label': label, title: label, on: {click: act}, ...more}, text);

export function choice(label, values, act) {
  return el('label', {}, label + ' ', el('select', {on: {change: e => act(e.target.value)}}, ...values.map(([v, text]) => el('option', {value: v}, text))));
}

export function seconds(s) {
  if (s === null || s === undefined || !isFinite(s)) return '';
  const a = Math.abs(s);
  if (a >= 172800) return +(s / 86400).toPrecision(3) + ' d';
  if (a >= 7200) return +(s / 3600).toPrecision(3) + ' h';
  if (a >= 600) return +(s / 60).toPrecision(3) + ' min';
  if (a >= 100) return s.toFixed(0) + ' s';
  if (a >= 0.1 || a === 0) return +s.toPrecision(3) + ' s';
  if (a >= 1e-4) return +(s * 1e3).toPrecision(3) + ' ms';
  return +(s * 1e6).toPrecision(3) + ' µs';
}

export function bytes(b) {
  if (b === null || b === undefined) return '';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (Math.abs(b) >= 999.5 && i < 4) { b /= 1000; i++; }
  return +b.toPrecision(3) + ' ' + units[i];
}

export const perSecond = b => bytes(b) + '/s';
export const percent = x => (Math.abs(x) < 0.0995 && x !== 0 ? +(100 * x).toPrecision(2) : Math.round(100 * x)) + ' %';
export const plural = (n, noun) => n === 1 ? `1 ${noun}` : `${n.toLocaleString('en')} ${noun}s`;
export const cores = millicores => millicores === 1000 ? '1 core' : `${+(millicores / 1000).toPrecision(4)} cores`;

// short cuts a text for a label; the whole stands in tables and details.
export const short = (s, n = 40) => s.length > n ? s.slice(0, Math.max(1, n - 1)) + '…' : s;

// Colours of types that people with any colour vision tell apart, then hues with other lightness: none is like those of
// failures and of the critical path.
const palette = ['#3b78b5', '#a8a132', '#4f9d69', '#8a6db5', '#2f9fae', '#937056', '#6c7a89', '#c96fa6'];
export const colour = i => i < palette.length ? palette[i] : `hsl(${50 + Math.round(i * 137.5) % 260} 42% ${[42, 55, 65][i % 3]}%)`;

// Colours of the ends of attempts.
export const outcomes = {ok: '#4f9d69', reused: '#33691e', 'under way': '#3b78b5', preempted: '#8a6db5', 'exit-code': '#c62828', 'out-of-memory': '#7b1fa2', 'timed-out': '#b26a00', killed: '#6d4c41',
  lost: '#37474f', 'host-error': '#ad1457', 'output-missing': '#e0457b', 'out-of-disk': '#00838f', failed: '#c62828', skipped: '#8d99a5'};

// when writes an instant in the zone of the reader.
export const when = t => isNaN(new Date(t)) ? String(t) : new Date(t).toLocaleString('sv-SE', {timeZoneName: 'short'});

export const quote = word => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";


export function legend(items) {
  return el('div', {class: 'legend'}, ...items.map(([name, c, kind]) => el('span', {}, el('i', {class: kind, style: {'--c': c}}), short(name, 60))));
}

// ticks are round values of a span; of time if it is in seconds.
export function ticks(from, to, about, time = true) {
  const raw = (to - from) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(raw || 1));
  const clock = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];
  const step = (time && raw > 30 && clock.find(s => s >= raw)) || [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9 && out.length < 100; k++) out.push(+(k * step).toPrecision(12));
  return out;
}

// clock writes the instants of an axis in one unit.
export function clock(most) {
  const [unit, name] = most >= 172800 ? [86400, 'd'] : most >= 7200 ? [3600, 'h'] : most >= 600 ? [60, 'min'] : most >= 1 || most === 0 ? [1, 's'] : [1e-3, 'ms'];
  const two = n => String(n).padStart(2, '0');
  return t => {
    const v = +(t / unit).toPrecision(6);
    return Number.isInteger(v) || unit < 60 || unit > 3600 ? `${v} ${name}` : `${Math.floor(v)}:${two(Math.round(v % 1 * 60) % 60)} ${name}`;
  };
}

const tip = el('div', {id: 'tip', hidden: true});
export function hint(event, text) {
  tip.hidden = !text;
  if (!text) return;
  if (!tip.isConnected) document.body.append(tip);
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18) + 'px';
}

// ink is a colour of the style sheet.
export const ink = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// fit gives a canvas as many pixels as the screen shows, and its context.
export function fit(canvas, height) {
  const ratio = Math.min(3, devicePixelRatio || 1), width = canvas.clientWidth || 1000;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + 'px';
  const x = canvas.getContext('2d');
  x.setTransform(ratio, 0, 0, ratio, 0, 0);
  x.clearRect(0, 0, width, height);
  x.font = '12px system-ui, sans-serif';
  return [x, width];
}

// On paper the page is light, whatever the screen is: canvases are drawn once more for it.
addEventListener('beforeprint', () => { document.documentElement.dataset.print = 'yes'; });
addEventListener('afterprint', () => { delete document.documentElement.dataset.print; });

// redraws calls draw when the size or the colours of the page change, and before it is printed.
export function redraws(draw) {
  addEventListener('resize', draw);
  addEventListener('beforeprint', draw);
  addEventListener('afterprint', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
}

// table is a small table: its columns are [name, is a number].
export function table(columns, rows, caption) {
  return el('table', {}, caption && el('caption', {}, caption), el('thead', {}, el('tr', {}, ...columns.map(([name, n]) => el('th', {scope: 'col', class: n && 'n'}, name)))),
    el('tbody', {}, ...rows.map(r => el('tr', {}, ...r.map((v, c) => c === 0 ? el('th', {scope: 'row'}, v) : el('td', {class: columns[c][1] && 'n'}, v))))));
}

export const box = (label, height, ...children) => el('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label, style: {'max-height': height + 'px'}}, ...children);
