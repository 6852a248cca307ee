// The page of a directory: its server with queue, tenants and nodes, and all runs.
import {el, when, seconds, percent, bytes, plural, table, box, short, outcomes} from './text.js';
import {inflate} from './data.js';
import {follow} from './live.js';

const good = {finished: outcomes.ok, done: outcomes.ok, running: outcomes['under way'], waiting: outcomes.skipped, accepted: outcomes.skipped, suspended: outcomes.preempted, cancelled: outcomes.skipped, skipped: outcomes.skipped,
  continued: outcomes.reused, interrupted: outcomes['timed-out']};
const state = s => el('span', {class: 'mark', style: {'--c': good[s] || outcomes.failed}}, s);
const link = (to, text) => el('a', {href: to}, short(text, 60));
const done = (n, all) => all ? el('progress', {max: all, value: n, 'aria-label': `${n} of ${all} tasks`, title: `${n} of ${all}`}) : '';
const clock = t => t && !t.startsWith('0001') ? when(t).replace(/ \S+$/, '') : '';

// parts are [id, title, columns, rows of the page]. A row begins with the text by which it is filtered.
const parts = [
  ['queue', 'Submissions', [['number', 1], ['name'], ['user'], ['tenant'], ['state'], ['progress'], ['tasks', 1], ['start'], ['end'], ['due'], ['why']], p => [...(p.queue?.submissions || [])].sort((x, y) => x.over - y.over).map(s => {
    const x = s.expected || {}, until = s.ended ? clock(s.ended) : x.end && clock(x.end) ? `~ ${clock(x.end)}` : '';
    return [`${s.id} ${s.name} ${s.user} ${s.tenant} ${s.state}`, s.veiled ? String(s.id) : link(`submission/${s.id}/`, String(s.id)), short(s.name, 60), s.user || String(s.uid), s.tenant || '', state(s.state), done(s.done || 0, s.tasks || 0),
      String(s.tasks || ''), s.started ? clock(s.started) : x.start ? `~ ${clock(x.start)}` : '', until, clock(s.due), short(s.message || s.reason || x.note || '', 120)];
  }), p => (p.queue?.more ? `and ${p.queue.more} more that wait` : '') + (p.queue?.older ? ' Older ones that have ended are not listed: gantry show NUMBER shows one.' : '')],
  ['nodes', 'Nodes', [['node'], ['cores', 1], ['memory', 1], ['running', 1], ['']], p => (p.nodes || []).map(n => [n.name, n.name, String(n.cores), n.memory_bytes ? bytes(n.memory_bytes) : '', String(n.running), n.drained ? 'drained' : ''])],
  ['tenants', 'Tenants', [['tenant'], ['present', 1], ['waiting', 1], ['running', 1], ['cores', 1], ['memory', 1], ['share', 1], ['mean wait', 1]], p => (p.tenants?.tenants || []).map(t => [t.name, t.others ? 'others' : t.name || '–', String(t.present), String(t.waiting),
    String(t.running), String(t.cores), bytes(t.memory_bytes), percent(t.share), seconds(t.mean_wait_ns / 1e9)])],
  ['runs', 'Runs', [['run'], ['state'], ['progress'], ['tasks', 1], ['failed', 1], ['makespan', 1], ['on'], ['policy'], ['started'], ['workflows']], p => p.runs.map(r => [`${r.run} ${r.state} ${r.policy} ${(r.workflow_names || []).join(' ')}`, link(`run/${encodeURIComponent(r.run)}/`, r.run),
    state(r.state), done(r.done, r.tasks), String(r.tasks), String(r.failed + r.skipped || ''), r.makespan_s === null ? '' : seconds(r.makespan_s), r.runtime, short(r.policy, 40), clock(r.started), short((r.workflow_names || []).join(', '), 80)]), p => p.more ? `and ${p.more} older ones: gantry ls lists them` : ''],
];

const root = document.getElementById('page'), filter = el('input', {type: 'search', placeholder: 'filter by words', 'aria-label': 'Filter the lists', on: {input: () => draw()}});
const subtitle = document.getElementById('subtitle'), tools = el('div', {class: 'tools'}, filter), notes = el('div'), sections = parts.map(([id, title]) => el('section', {id, hidden: true}, el('h2', {}, title), el('div', {class: 'run'})));
const links = parts.map(([id, title]) => el('a', {href: '#' + id, hidden: true}, title));
let page = null;

function draw() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), s = page.queue?.server;
  document.getElementById('title').textContent = s ? `${s.run}: ${plural(s.running, 'task')} running, ${s.waiting} waiting` : plural(page.runs.length + page.more, 'run');
  subtitle.textContent = (s ? `The server of ${page.dir}, policy ${s.policy} on ${s.runtime}${s.draining ? ', draining' : ''}.` : `The runs of ${page.dir}.`) + ` As of ${when(page.written)}.`;
  notes.replaceChildren(...[...page.notes, ...(s?.trouble ? [s.trouble] : [])].map(n => el('p', {class: 'note bad'}, n)));
  parts.forEach(([id, title, columns, rows, more], k) => {
    const all = rows(page), list = all.filter(r => words.every(w => r[0].toLowerCase().includes(w))), rest = more ? more(page).trim() : '';
    sections[k].hidden = links[k].hidden = !all.length && !rest || id === 'tenants' && all.length < 2;
    const frame = box(title, 560, table(columns, list.map(r => r.slice(1)))), at = sections[k].querySelector('.scroll')?.scrollTop || 0;
    sections[k].lastChild.replaceChildren(frame, el('p', {class: 'note'}, (words.length ? `${list.length} of ${all.length}. ` : '') + rest));
    frame.scrollTop = at;
  });
  document.documentElement.dataset.updates = +(document.documentElement.dataset.updates || 0) + 1;
}

document.getElementById('parts').append(...links);
root.replaceChildren(tools, notes, ...sections);
document.querySelector('header').append(follow(fresh => { page = fresh; draw(); }, inflate, p => p.over));
root.removeAttribute('aria-busy');
document.documentElement.dataset.ready = 'yes';
