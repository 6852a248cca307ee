// Elements and numbers. Text from the log reaches the page as text nodes only.

export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === 'on') for (const [event, f] of Object.entries(v)) e.addEventListener(event, f);
    else if (k === 'style') for (const [p, x] of Object.entries(v)) e.style.setProperty(p, x);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.filter(c => c !== undefined && c !== null && c !== false));
  return e;
}

export function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

export function seconds(s) {
  if (s === null || s === undefined || !isFinite(s)) return '';
  const a = Math.abs(s);
  if (a >= 7200) return +(s / 3600).toFixed(1) + ' h';
  if (a >= 600) return +(s / 60).toFixed(1) + ' min';
  if (a >= 100) return s.toFixed(0) + ' s';
  if (a >= 0.1 || a === 0) return +s.toPrecision(3) + ' s';
  return +(s * 1e3).toPrecision(3) + ' ms';
}

export function bytes(b) {
  if (b === null || b === undefined) return '';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (Math.abs(b) >= 1000 && i < 4) { b /= 1000; i++; }
  return +b.toPrecision(3) + ' ' + units[i];
}

export const percent = x => Math.round(100 * x) + ' %';

// short cuts a text for a label; the whole stands in tables and details.
export const short = (s, n = 40) => s.length > n ? s.slice(0, n - 1) + '…' : s;

export const palette = ['#3b76af', '#e08a3c', '#4e9a5a', '#c0504d', '#8a6fb3', '#8c6b53', '#d279ae', '#7f7f7f', '#b3a429', '#3aa6b0'];
export const colour = i => i < palette.length ? palette[i] : `hsl(${Math.round(i * 137.5) % 360} 45% 52%)`;

export function legend(items) {
  return el('div', {class: 'legend'}, ...items.map(([name, c]) => el('span', {}, el('i', {style: {background: c}}), short(name))));
}

// ticks are round instants of a span.
export function ticks(from, to, about) {
  const raw = (to - from) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(raw || 1));
  const clock = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];
  const step = (raw > 30 && clock.find(s => s >= raw)) || [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
  const out = [];
  for (let t = Math.ceil(from / step) * step; t <= to + step * 1e-9; t += step) out.push(+t.toPrecision(12));
  return out;
}

const tip = el('div', {id: 'tip', role: 'status', hidden: true});
export function hint(event, text) {
  tip.hidden = !text;
  if (!text) return;
  if (!tip.isConnected) document.body.append(tip);
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 300) + 'px';
  tip.style.top = event.clientY + 16 + 'px';
}

// ink is a colour of the style sheet.
export const ink = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

// fit gives a canvas as many pixels as the screen shows, and its context.
export function fit(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth || 1000;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + 'px';
  const x = canvas.getContext('2d');
  x.setTransform(ratio, 0, 0, ratio, 0, 0);
  x.font = '12px system-ui, sans-serif';
  return [x, width];
}
