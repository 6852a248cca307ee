// The answer: what the run came to, and why it took as long as it did.
import {el, seconds, percent, colour, legend, short, table, box, plural, when} from './text.js';

const parts = ['computing', 'waiting for a node', 'staging', 'container start', 'ending', 'suspended', 'lost to failed attempts'];

export const outcomeOf = run => ({finished: 'succeeded', failed: 'failed', interrupted: 'was interrupted', running: run.left ? 'was killed' : 'is under way'}[run.state] || run.state);

// prediction is the makespan that the policy expected, if it said one.
function prediction(run) {
  const predicted = run.notes.filter(n => n.topic === 'predicted' && n.instant !== undefined).map(n => n.instant);
  return predicted.length ? Math.max(...predicted) - run.arrival : null;
}

// now is how far a run has come, when it may end, and what runs.
function now(run, done, all) {
  const busy = [];
  for (let i = run.n - 1; i >= 0; i--) if (!run.knows(i, 'end') && run.attempt.node[i] >= 0) busy.push(i);
  const end = run.ends ?? (run.predicted ? run.predicted.makespan + run.arrival : 0), ends = end > run.end ? `, expected to end ${when(Date.parse(run.started) + 1000 * run.secs(end))}` : '';
  return el('div', {class: 'now'}, el('progress', {max: Math.max(1, all), value: done, 'aria-label': `${done} of ${all} tasks`}), el('p', {}, `${done} of ${plural(all, 'task')} done${ends}`),
    busy.length > 0 && el('h3', {}, `${plural(busy.length, 'task')} under way`), busy.length > 0 && el('ul', {}, ...busy.reverse().slice(0, 12).map(i => el('li', {}, el('button', {type: 'button', class: 'link', on: {click: () => run.choose(i)}}, run.label(run.attempt.task[i])),
      ` on ${run.nodeName(i)}, for ${seconds(run.secs(run.end - run.attempt.queued[i]))}`))), busy.length > 12 && el('p', {class: 'note'}, `and ${busy.length - 12} more`));
}

export function answer(run, page) {
  const node = el('div', {class: 'answer'});
  return {node, refresh() {
    const counts = {};
    for (const s of run.task.state) counts[s] = (counts[s] || 0) + 1;
    const failed = counts[5] || 0, skipped = counts[6] || 0, all = run.task.state.length - (counts[7] || 0), busy = (counts[1] || 0) + (counts[2] || 0) + (counts[3] || 0);
    const card = (value, label, bad) => el('div', {class: 'card'}, el('b', {class: bad && 'bad'}, value), el('span', {}, bad && run.failures.length ? el('a', {href: '#failures'}, label) : label));
    const expected = prediction(run), took = run.makespan === null ? run.end - run.arrival : run.makespan;
    const out = [el('div', {class: 'cards'},
      card(outcomeOf(run), 'the run', run.state === 'failed' || run.left),
      card(seconds(run.secs(took)), run.makespan === null ? 'so far' : 'makespan'),
      run.predicted && card(seconds(run.secs(run.predicted.makespan)), `predicted ${run.predicted.made ? 'when it was resumed' : 'before it began'}` +
        (run.predicted.high > run.predicted.low ? `, ${seconds(run.secs(run.predicted.low))} to ${seconds(run.secs(run.predicted.high))} with a probability of 80 %` : '')),
      expected !== null && card(seconds(run.secs(expected)), 'predicted by the policy'),
      card(`${counts[4] || 0} of ${all}`, 'tasks succeeded'),
      busy > 0 && card(String(busy), 'tasks under way'),
      failed + skipped > 0 && card(`${failed} / ${skipped}`, 'tasks failed / skipped', true),
      run.reused.length > 0 && card(String(run.reused.length), 'tasks reused'),
      card(String(run.n), 'attempts'),
      all > 0 && card(seconds(run.secs(run.answer.bound)), 'longest path of tasks'))];
    if (all === 0) out.push(el('p', {class: 'note'}, 'This run has no tasks.'));
    if (run.reused.length) {
      const open = node.querySelector('details.reused')?.open, saved = run.reused.reduce((sum, r) => sum + r.ran, 0);
      out.push(el('details', {class: 'reused', open}, el('summary', {}, `${plural(run.reused.length, 'task')} took over the results of earlier attempts, which ran ${seconds(run.secs(saved))}`),
        box('Reused tasks', 320, table([['task'], ['results of'], ['at', 1], ['ran then', 1]], run.reused.slice(0, 2000).map(r => [el('button', {type: 'button', class: 'link', on: {click: () => run.choose(-1, r.task)}}, short(run.label(r.task), 60)), r.run ? `run ${r.run}` : 'this run, which was continued', seconds(run.secs(r.at)), seconds(run.secs(r.ran))])))));
    }
    if (run.state === 'running') {
      out.push(run.left ? el('p', {}, 'No gantry works on this run: it was killed. ', el('code', {}, `gantry resume ${run.name}`), ' continues it. Below is how far it got.') : now(run, counts[4] || 0, all),
        !page.live && !run.left && el('p', {class: 'note'}, `The page was written ${when(page.written)}.`));
    }
    const p = run.answer.parts, total = parts.reduce((sum, k) => sum + (p[k] || 0), 0);
    if (total && (run.state !== 'running' || run.left)) {
      out.push(el('h3', {}, 'Why it took so long'), el('p', {class: 'advice'}, run.answer.advice));
      const last = run.answer.steps.at(-1), used = parts.filter(k => p[k] > 0);
      if (run.flows > 1 && last) out.push(el('p', {class: 'note'}, `The path leads to ${run.label(run.attempt.task[last.attempt])}, the task that ended last of ${run.flows} workflows.`));
      out.push(el('div', {class: 'bar', role: 'img', 'aria-label': 'Critical path: ' + used.map(k => `${k} ${seconds(run.secs(p[k]))}`).join(', ')},
        ...used.map(k => el('div', {title: `${k}: ${seconds(run.secs(p[k]))}`, style: {width: 100 * p[k] / total + '%', background: colour(parts.indexOf(k))}}))));
      out.push(legend(used.map(k => [`${k} ${seconds(run.secs(p[k]))} (${percent(p[k] / total)})`, colour(parts.indexOf(k))])));
      const rows = run.answer.steps.slice(0, 2000).map(s => [short(run.label(run.attempt.task[s.attempt]), 60), s.what, s.why || '', seconds(run.secs(s.from)), seconds(run.secs(s.to - s.from))]);
      const open = node.querySelector('details.path')?.open;
      out.push(el('details', {class: 'path', open}, el('summary', {}, `The measured critical path: ${plural(new Set(run.answer.steps.map(s => run.attempt.task[s.attempt])).size, 'task')}`),
        box('Critical path', 320, table([['task'], ['what'], ['why, or type'], ['from', 1], ['for', 1]], rows))));
    }
    node.replaceChildren(...out.filter(Boolean));
  }};
}
