// Charts over time, on canvases.
import {el, ticks, clock, ink, fit, hint, redraws} from './text.js';

export const gutter = 74;

// frame draws the axes of a chart and returns where values lie.
function frame(x, width, height, xs, ys, time, value) {
  const w = width - gutter - 12, h = height - 26, top = 8;
  const px = v => gutter + (v - xs[0]) / ((xs[1] - xs[0]) || 1) * w, py = v => top + h - (v - ys[0]) / ((ys[1] - ys[0]) || 1) * h;
  x.strokeStyle = ink('line');
  x.fillStyle = ink('soft');
  x.textAlign = 'right';
  for (const t of ticks(ys[0], ys[1], Math.max(2, h / 36), false)) {
    x.beginPath(); x.moveTo(gutter, Math.round(py(t)) + 0.5); x.lineTo(gutter + w, Math.round(py(t)) + 0.5); x.stroke();
    x.fillText(value(t), gutter - 7, py(t) + 4);
  }
  x.textAlign = 'center';
  for (const t of ticks(xs[0], xs[1], w / 95)) x.fillText(time(t), Math.min(Math.max(px(t), gutter + 8), width - 22), top + h + 16);
  x.textAlign = 'left';
  return {px, py, w, h, top};
}

// chart draws onto a canvas: paint(context, frame) once the axes are there. what() is {x, y: spans, value: of an axis,
// label, at: text of an instant}.
export function chart(height, what, paint) {
  const canvas = el('canvas', {role: 'img'});
  let f = null;
  const draw = () => {
    const w = what();
    if (!w) return;
    const [x, width] = fit(canvas, height);
    canvas.setAttribute('aria-label', w.label);
    f = {...frame(x, width, height, w.x, w.y, w.time || clock(w.x[1]), w.value), ...w};
    x.save();
    x.beginPath(); x.rect(gutter, f.top - 2, f.w, f.h + 4); x.clip();
    paint(x, f);
    x.restore();
  };
  canvas.addEventListener('mousemove', e => {
    if (!f || !f.at) return;
    const px = e.clientX - canvas.getBoundingClientRect().left;
    hint(e, px < gutter || px > gutter + f.w ? '' : f.at(f.x[0] + (px - gutter) / f.w * (f.x[1] - f.x[0])));
  });
  canvas.addEventListener('mouseleave', e => hint(e, ''));
  redraws(draw);
  return {canvas, draw};
}

// area fills the span between two lists of values over equal spans of time, as steps.
export function area(x, f, low, high, colour) {
  const n = high.length, at = k => f.px(f.x[0] + k / n * (f.x[1] - f.x[0]));
  x.fillStyle = colour;
  x.beginPath();
  for (let k = 0; k < n; k++) { x.lineTo(at(k), f.py(high[k])); x.lineTo(at(k + 1), f.py(high[k])); }
  for (let k = n - 1; k >= 0; k--) { const v = low ? low[k] : f.y[0]; x.lineTo(at(k + 1), f.py(v)); x.lineTo(at(k), f.py(v)); }
  x.fill();
}

// line joins points.
export function line(x, f, points, colour, width = 1.6, dash = []) {
  x.strokeStyle = colour;
  x.lineWidth = width;
  x.setLineDash(dash);
  x.beginPath();
  points.forEach(([a, b]) => x.lineTo(f.px(a), f.py(b)));
  x.stroke();
  x.setLineDash([]);
  x.lineWidth = 1;
}
