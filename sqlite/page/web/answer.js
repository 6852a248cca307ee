// The answer: what the run came to, and why it took as long as it did.
import {el, seconds, percent, colour, legend, short} from './text.js';

const parts = ['computing', 'waiting for a node', 'staging', 'container start', 'suspended', 'lost to failed attempts'];

export function answer(run) {
  const counts = {};
  for (const s of run.task.state) counts[s] = (counts[s] || 0) + 1;
  const done = counts[4] || 0, failed = counts[5] || 0, skipped = counts[6] || 0, all = run.task.state.length;
  const outcome = {finished: 'succeeded', failed: 'failed', interrupted: 'was interrupted', running: 'is under way, or was killed'}[run.state] || run.state;
  const card = (value, label, bad) => el('div', {class: 'card'}, el('b', {class: bad && 'bad'}, value), el('span', {}, label));
  const out = el('section', {'aria-label': 'Answer'},
    el('div', {class: 'cards'},
      card(outcome, 'the run', run.state === 'failed'),
      card(seconds(run.secs(run.makespan === null ? run.end : run.makespan)), run.makespan === null ? 'so far' : 'makespan'),
      card(`${done} of ${all}`, 'tasks succeeded'),
      failed + skipped > 0 && card(`${failed} / ${skipped}`, 'tasks failed / skipped', true),
      card(String(run.n), 'attempts'),
      card(seconds(run.secs(run.answer.bound)), 'longest path of tasks')));
  if (all === 0) {
    out.append(el('p', {class: 'note'}, 'This run has no tasks.'));
    return out;
  }
  if (run.state === 'running') out.append(el('p', {class: 'note'}, 'This run had not ended when the page was written: what is shown is how far it got.'));
  const p = run.answer.parts, total = parts.reduce((sum, k) => sum + (p[k] || 0), 0);
  if (!total) return out;
  out.append(el('h2', {}, 'Why it took so long'));
  out.append(el('p', {class: 'advice'}, run.answer.advice));
  const last = run.answer.steps[run.answer.steps.length - 1];
  if (run.workflows.length > 1 && last) {
    out.append(el('p', {class: 'note'}, `The path leads to ${run.fullName(last.attempt)}, the task that ended last of ${run.workflows.length} workflows.`));
  }
  const used = parts.filter(k => p[k] > 0);
  out.append(el('div', {class: 'bar', role: 'img', 'aria-label': 'Critical path: ' + used.map(k => `${k} ${seconds(run.secs(p[k]))}`).join(', ')},
    ...used.map(k => el('div', {title: `${k}: ${seconds(run.secs(p[k]))}`, style: {width: 100 * p[k] / total + '%', background: colour(parts.indexOf(k))}}))));
  out.append(legend(used.map(k => [`${k} ${seconds(run.secs(p[k]))} (${percent(p[k] / total)})`, colour(parts.indexOf(k))])));
  const rows = run.answer.steps.map(s => el('tr', {}, el('td', {}, short(run.fullName(s.attempt), 60)), el('td', {}, s.what), el('td', {}, s.why || ''),
    el('td', {class: 'n'}, seconds(run.secs(s.from))), el('td', {class: 'n'}, seconds(run.secs(s.to - s.from)))));
  out.append(el('details', {}, el('summary', {}, `The measured critical path, ${new Set(run.answer.steps.map(s => s.attempt)).size} tasks`),
    el('div', {class: 'scroll', tabindex: 0, style: {'max-height': '320px'}}, el('table', {},
      el('thead', {}, el('tr', {}, ...['task', 'what', 'why or type', 'from', 'for'].map((h, i) => el('th', {class: i > 2 && 'n', scope: 'col'}, h)))),
      el('tbody', {}, ...rows.slice(0, 2000))))));
  return out;
}
