// Everything that is known of a task, as gantry explain has it.
import {el, seconds, bytes, perSecond, cores, percent, plural, quote} from './text.js';
import {states} from './data.js';

const shortages = {cpu: t => cores(t.cores), memory: t => bytes(t.memory) + ' of memory', disk: t => perSecond(t.disk) + ' of disk',
  gpu: () => 'as many GPUs'};

// holders are the tasks that were on nodes at an instant.
function holders(run, at) {
  const a = run.attempt, names = [];
  let more = 0;
  for (let i = 0; i < run.n; i++) {
    if (a.queued[i] > at) break; // they are in the order of their orders
    if (a.node[i] < 0 || run.knows(i, 'end') && run.stop[i] <= at) continue;
    if (names.length < 5) names.push(run.label(a.task[i])); else more++;
  }
  return names.length ? `; running then: ${names.join(', ')}${more ? ` and ${more} more` : ''}` : '';
}

function waiting(run, need, k) {
  const w = run.wait, [code, dim] = run.reasons[w.reason[k]].split(' '), until = seconds(run.secs(w.since[k] + w.until[k]));
  switch (code) {
    case 'waits-for-parents': return 'not all of its parents have ended';
    case 'waits-for-files': return 'its input files do not all exist yet';
    case 'no-node-free': return `no node has ${(shortages[dim] || (() => 'enough'))(need)} free` + holders(run, w.since[k]);
    case 'planned-later': return `policy ${run.policy} has planned it for ${until}` + (w.node[k] >= 0 ? ` on ${run.nodes[w.node[k]].name}` : '');
    case 'outranked': return `policy ${run.policy} keeps free resources for tasks before it` + holders(run, w.since[k]);
    case 'draining': return 'gantry was stopping and started no more tasks';
    case 'not-yet-released': return `its workflow is released at ${until}`;
    case 'unplaced': return `policy ${run.policy} gave it no place in this round`;
    case 'no-node': return 'no node can take it now: those that could are drained, cut down or gone';
    case 'tokens-held': return 'others hold the tokens that it needs';
  }
  return code;
}

const asked = (run, i) => [cores(run.attempt.cores[i]), run.attempt.memory[i] > 0 && bytes(run.attempt.memory[i] * 1000), run.attempt.disk[i] > 0 && perSecond(run.attempt.disk[i] * 1000), run.oddOf.get(i)?.gpus && `GPUs ${run.oddOf.get(i).gpus}`].filter(Boolean).join(', ');

function applied(run, i) {
  const a = run.attempt;
  return [a.applied_cores[i] && cores(a.applied_cores[i]), a.applied_memory[i] && bytes(a.applied_memory[i] * 1000), a.applied_read[i] && `reads ${perSecond(a.applied_read[i] * 1000)}`,
    a.applied_write[i] && `writes ${perSecond(a.applied_write[i] * 1000)}`].filter(Boolean).join(', ');
}

function used(run, i) {
  const a = run.attempt, odd = run.oddOf.get(i) || {};
  return [run.knows(i, 'cpu') && `${seconds(run.secs(a.cpu[i]))} of CPU time`, run.knows(i, 'throttled') && a.throttled[i] > 0 && `throttled for ${seconds(run.secs(a.throttled[i]))}`,
    run.knows(i, 'memory') && `${bytes(a.peak[i] * 1000)} of memory at most`, run.knows(i, 'disk') && `${bytes(a.read[i] * 1000)} read, ${bytes(a.written[i] * 1000)} written`,
    a.copied[i] > 0 && `${bytes(a.copied[i] * 1000)} of inputs from other nodes`, odd.moved && `${bytes(odd.moved)} of its checkpoint and outputs moved`,
    odd.gpu !== undefined && `${seconds(run.secs(odd.gpu))} of GPU time`, odd.gpu_peak !== undefined && `${bytes(odd.gpu_peak)} of GPU memory at most`,
    odd.oom && plural(odd.oom, 'out-of-memory kill'), odd.dropped && `${bytes(odd.dropped)} of output not kept`].filter(Boolean).join(', ');
}

// history is a list of [instant, rank, text]: things of one instant are in the order of ranks.
function history(run, t, need) {
  const a = run.attempt, w = run.workflows[run.task.workflow[t]], s = u => seconds(run.secs(u)), out = [[w.arrived, 0, `its workflow ${w.name} arrived`]];
  if (w.release > w.arrived) out.push([w.release, 0, 'its workflow was released']);
  const parents = run.parentsOf.get(t) || [], ended = [];
  for (const p of parents) {
    const last = (run.attemptsOf.get(p) || []).at(-1);
    if (last !== undefined && run.knows(last, 'end') && states[run.task.state[p]] === 'done') ended.push([run.stop[last], 1, `its parent ${run.labels[p]} ended` + (a.node[last] < 0 ? '' : ` on ${run.nodeName(last)}`)]);
  }
  ended.sort((x, y) => x[0] - y[0]);
  if (ended.length === parents.length && ended.length) ended.at(-1)[2] += ': ready';
  if (ended.length > 5) out.push([ended.at(-1)[0], 1, `${ended.length} of its ${parents.length} parents had ended, the last: ${ended.at(-1)[2]}`]); else out.push(...ended);
  for (const k of run.waitsOf.get(t) || []) out.push([run.wait.since[k], 2, waiting(run, need, k)]);
  for (const n of run.notes) {
    if (n.task !== t && !(n.task < 0 && n.workflow === run.task.workflow[t])) continue;
    out.push([n.at, 2, n.topic + (n.task < 0 ? ' of its workflow' : '') + (n.instant !== undefined && n.instant !== n.at ? ' ' + s(n.instant) : '') + (n.text ? ': ' + n.text : '')]);
  }
  for (const i of run.attemptsOf.get(t) || []) {
    const odd = run.oddOf.get(i) || {}, name = `attempt ${a.try[i]}`;
    if (a.node[i] < 0) { out.push([run.stop[i], 5, 'done in no time: a task without runtime and files takes no place']); continue; }
    const planned = run.knows(i, 'plan') ? `, planned to end at ${s(run.stop[i] - a.over[i])}` : '';
    const guess = run.knows(i, 'estimate') ? `; estimate ${s(run.estimate(i))}${a.spread[i] ? ` ± ${s(a.spread[i])}` : ''} (${run.sources[a.source[i]]}${a.samples[i] ? `, ${plural(a.samples[i], 'sample')}` : ''})` : '';
    out.push([a.queued[i], 3, `${name}: ordered on ${run.nodeName(i)} with ${asked(run, i)}${planned}${guess}` + (odd.done ? `; ${percent(odd.done)} of the task was done before` : '')]);
    if (a.staging[i] > 0) out.push([a.queued[i] + a.staging[i], 4, `${name}: inputs are in place, after ${s(a.staging[i])}`]);
    if (run.knows(i, 'start')) out.push([run.start[i], 4, `${name}: its program runs` + (a.begin[i] > 0 ? `, after ${s(a.begin[i])} of container start` : '')]);
    for (const k of run.awayOf.get(i) || []) {
      out.push([run.away.since[k], 4, `${name}: ${{freeze: 'frozen', checkpoint: 'stopped with a checkpoint', restart: 'ended, to start again'}[run.away.how[k]] || run.away.how[k]} by policy ${run.policy}`]);
      out.push([run.away.until[k], 4, `${name}: that lasted ${s(run.away.until[k] - run.away.since[k])}`]);
    }
    if (run.knows(i, 'end')) {
      const limits = applied(run, i), measured = used(run, i);
      out.push([run.stop[i], 1, `${name}: ended, ${run.outcome(i)}${odd.exit ? ' ' + odd.exit : ''}, after ${s(a.run[i])}` + (measured ? `; used ${measured}` : '') + (limits ? `; limits applied: ${limits}` : '') +
        (odd.kept ? `; its checkpoint has ${percent(odd.kept)} of the task` : '') + (odd.lost ? `; ${s(odd.lost)} of work lost` : '') + (odd.message ? '\n' + odd.message.trim() : '')]);
    }
  }
  return out.map((x, k) => [...x, k]).sort((x, y) => x[0] - y[0] || x[1] - y[1] || x[3] - y[3]);
}

// detail shows a task and one of its attempts, if it has any.
export function detail(run, t, i) {
  const a = run.attempt, tried = i >= 0, reused = run.reusedOf.get(t), s = u => seconds(run.secs(u)), fact = (k, v) => v ? [el('dt', {}, k), el('dd', {}, v)] : [];
  const need = {cores: run.task.cores[t], memory: run.task.memory[t] * 1000, disk: run.task.disk[t] * 1000};
  const needs = [cores(need.cores), need.memory && bytes(need.memory) + ' of memory', need.disk && perSecond(need.disk) + ' of disk', run.task.limit[t] && `at most ${s(run.task.limit[t])}`, ...(run.ran[t]?.needs || [])].filter(Boolean).join(', ');
  const imputed = run.imputations[run.task.imputed[t]], critical = tried && run.critical.has(i);
  const program = run.ran[t] || {}, files = list => (list || []).join('\n');
  return [el('h4', {}, run.label(t)), program.command ? el('pre', {tabindex: 0, 'aria-label': 'Its command'}, program.command) : '', el('dl', {},
    ...fact('name', run.taskOf(t)), ...fact('image', program.image), ...fact('reads', files(program.inputs)), ...fact('writes', files(program.outputs)), ...fact('type', run.kinds[run.task.kind[t]]), ...fact('state', states[run.task.state[t]] + (critical ? '; on the critical path' : '')),
    ...fact('results of', reused && (reused.run ? `run ${reused.run}` : 'this run, which was continued')),
    ...fact('attempt', tried && `${a.try[i]} of ${run.attemptsOf.get(t).length}: ${run.outcome(i)}` + (a.node[i] < 0 ? '' : ` on ${run.nodeName(i)}`)),
    ...fact('needs', needs + (imputed ? ` (not in the trace, imputed: ${imputed.replaceAll(',', ', ')})` : '')),
    ...(tried ? [...fact('asked', asked(run, i)), ...fact('applied', applied(run, i)), ...fact('used', used(run, i)),
    ...fact('waited', s(a.wait[i]) + ' from when it was ready'), ...fact('ended', !run.knows(i, 'end') ? 'not yet' : `at ${s(run.stop[i])}` +
      (!run.knows(i, 'plan') ? '' : a.over[i] ? `, ${s(Math.abs(a.over[i]))} ${a.over[i] > 0 ? 'later' : 'earlier'} than planned` : ', as planned'))] : [])),
    el('ol', {class: 'history', 'aria-label': 'History'}, ...history(run, t, need).map(([at, , text]) => el('li', {}, el('time', {}, `${run.secs(at).toFixed(3)} s`), el('span', {}, text)))),
    el('p', {class: 'note'}, el('code', {}, `gantry explain ${run.id} ${quote(run.taskOf(t))}`))];
}
