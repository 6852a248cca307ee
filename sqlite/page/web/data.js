// The data of the page: JSON, compressed, in which columns of numbers are differences as varints.

export const states = ['waiting', 'starting', 'running', 'suspended', 'done', 'failed', 'skipped'];
export const known = {start: 1, end: 2, cpu: 4, memory: 8, disk: 16};

function raw(base64) {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

function column(base64) {
  const b = raw(base64 || '');
  const out = [];
  let last = 0;
  for (let p = 0; p < b.length;) {
    let v = 0, scale = 1, x;
    do { x = b[p++]; v += (x & 127) * scale; scale *= 128; } while (x & 128);
    last += v % 2 ? -(v + 1) / 2 : v / 2;
    out.push(last);
  }
  return Float64Array.from(out);
}

const columns = o => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, typeof v === 'string' ? column(v) : v]));

export async function load() {
  const packed = raw(document.getElementById('data').textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const page = JSON.parse(await new Response(stream).text());
  for (const r of page.runs) {
    r.task = columns(r.task);
    r.attempt = columns(r.attempt);
    r.away = columns(r.away);
    r.edges = r.edges.map(column);
    r.names = r.names.split('\n');
    r.names.pop();
    r.n = r.attempt.task.length;
    r.scale = r.unit / 1e9;
    const a = r.attempt, n = r.n;
    r.start = new Float64Array(n); // of the program
    r.stop = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      r.start[i] = a.queued[i] + a.staging[i] + a.begin[i];
      r.stop[i] = r.start[i] + a.run[i];
    }
    r.kind = i => r.task.kind[a.task[i]];
    r.taskName = i => r.names[a.task[i]] + (a.try[i] > 1 ? ` (try ${a.try[i]})` : '');
    r.fullName = i => r.workflows[r.task.workflow[a.task[i]]].name + '/' + r.names[a.task[i]];
    r.secs = u => u * r.scale;
    r.knows = (i, what) => (a.known[i] & known[what]) > 0;
    r.outcome = i => r.outcomes[a.outcome[i]] || 'under way';
    r.critical = new Set(r.answer.steps.map(s => s.attempt));
  }
  return page;
}
