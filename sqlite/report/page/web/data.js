// The data of the page: JSON, compressed, in which columns of numbers are differences. payload.go documents it.
import {colour, outcomes} from './text.js';

export const states = ['waiting', 'starting', 'running', 'suspended', 'done', 'failed', 'skipped', 'continued'];
export const known = {start: 1, end: 2, cpu: 4, memory: 8, disk: 16, throttled: 32, plan: 64, estimate: 128};

function raw(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

function column(c) {
  let last = 0;
  return Float64Array.from(c || [], difference => last += difference);
}

// unpacked is an object with its columns unpacked: those named, or all.
const unpacked = (o, names = Object.keys(o)) => ({...o, ...Object.fromEntries(names.map(k => [k, column(o[k])]))});

export const embedded = () => raw(document.getElementById('data').textContent);

export async function inflate(packed) {
  return JSON.parse(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text());
}

export async function unpack(packed) {
  const page = await inflate(packed), kinds = new Map();
  for (const r of page.runs) {
    for (const k of r.kinds || []) if (!kinds.has(k)) kinds.set(k, kinds.size);
    prepare(r, k => colour(kinds.get(r.kinds[k])));
  }
  return page;
}

// group lists the numbers of rows by a column.
function group(column) {
  const out = new Map();
  column.forEach((v, i) => { if (out.has(v)) out.get(v).push(i); else out.set(v, [i]); });
  return out;
}

// later makes a value when it is asked for first.
function later(o, name, make) {
  Object.defineProperty(o, name, {configurable: true, enumerable: true, get() {
    const value = make();
    Object.defineProperty(this, name, {value, configurable: true, enumerable: true, writable: true});
    return value;
  }});
}

// Members of the records of a list that are instants or spans.
const times = {workflows: ['arrived', 'release', 'due', 'ended'], notes: ['at', 'instant'], reused: ['at', 'ran'], odd: ['before', 'lost', 'gpu'], copies: ['since', 'until'], changes: ['at']};

// count counts nanoseconds in the units of columns.
function count(r) {
  const units = (o, names = Object.keys(o)) => { for (const k of names) if (o[k]) o[k] = Math.round(o[k] / r.unit); };
  for (const [list, names] of Object.entries(times)) for (const o of r[list] || []) units(o, names);
  for (const s of r.answer.steps) units(s, ['from', 'to']);
  for (const p of r.others?.policies || []) units(p, ['makespan', 'lateness']);
  units(r, ['end', 'ends', 'makespan']);
  units(r.predicted || {});
  units(r.answer, ['bound']);
  units(r.answer.parts);
}

function prepare(r, hue) {
  r.ran ||= []; r.results ||= []; r.kinds ||= []; r.reused ||= []; r.nodes ||= []; r.workflows ||= [];
  r.flows = r.workflows.filter(w => w.state !== 'continued').length; // without those in whose place others are
  r.id = r.submission || r.name; // in commands
  r.title = r.submission ? `Submission ${r.submission}: ${r.workflows.map(w => w.name).join(', ')}` : r.name;
  count(r);
  r.names = r.names.split('\n');
  r.names.pop();
  for (const k of ['task', 'attempt', 'wait']) r[k] = unpacked(r[k]);
  r.away = unpacked(r.away, ['attempt', 'since', 'until']);
  r.edges = r.edges.map(column);
  for (const p of r.others?.policies || []) Object.assign(p, unpacked(p, ['lane', 'from', 'length', 'kind', 'workflow']));
  const a = r.attempt, n = a.known.length;
  r.n = n;
  r.scale = r.unit / 1e9;
  r.start = new Float64Array(n); // of the program
  r.stop = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    r.start[i] = a.queued[i] + a.staging[i] + a.begin[i];
    r.stop[i] = r.start[i] + a.run[i];
    const t = a.task[i];
    a.cores[i] += r.task.cores[t];
    a.memory[i] += r.task.memory[t];
    a.disk[i] += r.task.disk[t];
  }
  const hues = r.kinds.map((_, k) => hue(k));
  r.hue = k => hues[k];
  r.flow = i => colour(r.task.workflow[a.task[i]]);
  r.byFlow = r.kinds.length < 2 && r.flows > 1 && r.workflows.length <= 20; // types tell nothing
  r.tint = i => r.fails(i) ? outcomes[r.outcome(i)] || outcomes.failed : r.byFlow ? r.flow(i) : hues[r.task.kind[a.task[i]]];
  r.kind = i => r.task.kind[a.task[i]];
  r.kindName = i => r.kinds[r.kind(i)];
  r.nodeName = i => a.node[i] < 0 ? '–' : r.nodes[a.node[i]].name;
  r.label = t => (r.flows > 1 ? r.workflows[r.task.workflow[t]].name + '/' : '') + r.labels[t];
  r.taskOf = t => r.workflows[r.task.workflow[t]].name + '/' + r.names[t];
  r.fullName = i => r.taskOf(a.task[i]);
  r.secs = u => u * r.unit / 1e9; // rounded once, as gantry explain does
  r.knows = (i, what) => (a.known[i] & known[what]) > 0;
  r.outcome = i => r.outcomes[a.outcome[i]] || 'under way';
  r.fails = i => !['ok', 'under way', 'preempted'].includes(r.outcome(i));
  r.estimate = i => a.error[i] + r.stop[i] - a.queued[i] - a.staging[i];
  r.reused = r.reused.filter(x => states[r.task.state[x.task]] !== 'continued');
  later(r, 'reusedOf', () => new Map(r.reused.map(x => [x.task, x])));
  // The state of a task, or how it ended: an outcome if it failed.
  r.stateOf = t => r.reusedOf.has(t) ? 'reused' : states[r.task.state[t]] === 'failed' && r.attemptsOf.has(t) ? r.outcome(r.attemptsOf.get(t).at(-1)) : states[r.task.state[t]];
  r.critical = new Set(r.answer.steps.map(s => s.attempt));
  const first = r.workflows.length ? r.workflows.reduce((m, w) => Math.min(m, w.arrived), Infinity) : 0;
  r.arrival = first;
  r.begin = first < r.end / 50 ? 0 : first; // of the axes
  // A task whose name is a number is known by its type and by its place among those of this type.
  later(r, 'labels', () => {
    const seen = new Map(), key = t => r.task.workflow[t] * r.kinds.length + r.task.kind[t];
    r.names.forEach((_, t) => { if (!seen.has(key(t))) seen.set(key(t), []); seen.get(key(t)).push(t); });
    const out = [];
    for (const list of seen.values()) list.forEach((t, k) => {
      const kind = r.kinds[r.task.kind[t]];
      out[t] = !kind || !/^(id|task|job|node|n|t)?[_-]?\d+$/i.test(r.names[t]) ? r.names[t] : list.length > 1 ? `${kind} ${k + 1}` : kind;
    });
    return out;
  });
  later(r, 'childrenOf', () => { const out = new Map(); r.edges[0].forEach((c, e) => { const p = r.edges[1][e]; if (out.has(p)) out.get(p).push(c); else out.set(p, [c]); }); return out; });
  // The critical path as pairs of tasks, one after the other.
  later(r, 'path', () => { const tasks = r.answer.steps.map(s => a.task[s.attempt]); return tasks.slice(1).flatMap((t, k) => t === tasks[k] ? [] : [[tasks[k], t]]); });
  later(r, 'attemptsOf', () => group(a.task));
  later(r, 'waitsOf', () => group(r.wait.task));
  later(r, 'awayOf', () => group(r.away.attempt));
  later(r, 'parentsOf', () => { const out = new Map(); r.edges[0].forEach((c, e) => { if (out.has(c)) out.get(c).push(r.edges[1][e]); else out.set(c, [r.edges[1][e]]); }); return out; });
  later(r, 'oddOf', () => new Map(r.odd.map(o => [o.attempt, o])));
  later(r, 'search', () => Array.from({length: n}, (_, i) => `${r.fullName(i)}\n${r.labels[a.task[i]]}\n${r.kindName(i)}\n${r.nodeName(i)}\n${r.outcome(i)}`.toLowerCase()));
}
