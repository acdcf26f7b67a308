/** The worker thread of large-requests.ts: the handlers of the server over a store that is in another thread. */
import { randomInt } from 'node:crypto';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../base/clock.ts';
import { ServiceRange } from '../../kube/values/service-range.ts';
import type { ServicePool } from '../admission/service-claims.ts';
import { standardAdmission } from '../admission/standard-admission.ts';
import { systemRandom } from '../model/random.ts';
import { ResourceTable } from '../model/resource.ts';
import { StatusError, modified } from '../model/status.ts';
import { placeOfKey } from '../model/stored-objects.ts';
import { resources } from '../resources/resources.ts';
import type { ApiRequest, Exchange } from '../rest/api-request.ts';
import { encodeReply } from '../rest/representation.ts';
import { objectHandlers } from '../rest/router.ts';
import type { RequestStore } from '../rest/write-context.ts';
import { CompactedError, FutureRevisionError } from '../store/store-errors.ts';
import type { Decision, ListRequest, ListResult, StoredObject } from '../store/store.ts';
import type { Answers, Job, Outcome, Question, WorkerData } from './large-requests.ts';
import { Warnings } from './send-reply.ts';

const { questions, flag: shared, serviceRange } = workerData as WorkerData;
const flag = new Int32Array(shared);

/** Sleeps until the other thread has answered: decisions are made in one step and cannot wait otherwise. */
function ask<Kind extends Question['kind']>(question: Question & { readonly kind: Kind }): Answers[Kind] {
  Atomics.store(flag, 0, 0);
  questions.postMessage(question);
  Atomics.wait(flag, 0, 0);
  const message = receiveMessageOnPort(questions)?.message as { readonly answer?: Answers[Kind] };
  if (!('answer' in message)) throw new Error('the store has failed');
  return message.answer;
}

/** As often as a real server tries to patch an object that others write at the same time. */
const triesMax = 5;

class DistantStore implements RequestStore {
  readonly #read = new Map<string, number>();
  readonly #placeholder = String(randomInt(2 ** 47, 2 ** 48 - 1));
  #written: number | undefined;

  get revision(): number {
    return ask({ kind: 'revision' });
  }

  get(key: string): StoredObject | undefined {
    const stored = ask({ kind: 'get', key });
    this.#read.set(key, stored?.revision ?? 0);
    return stored;
  }

  list(request: ListRequest): ListResult {
    const answer = ask({ kind: 'list', request });
    if (!('reason' in answer)) return answer;
    const { reason, revision } = answer;
    throw reason === 'Compacted' ? new CompactedError(revision, revision) : new FutureRevisionError(revision, revision);
  }

  async update<R>(
    key: string,
    decide: (current: StoredObject | undefined, revision: number) => Decision<R>,
  ): Promise<R> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      this.#read.clear();
      const decision = decide(this.get(key), Number(this.#placeholder));
      if (decision.kind === 'keep') return decision.result;
      const { kind: type, value, result } = decision;
      this.#written = ask({ kind: 'commit', key, type, value, placeholder: this.#placeholder, read: this.#read });
      if (this.#written !== undefined) return result;
    }
    const { group, plural, name } = placeOfKey(key);
    throw modified({ group, name: plural }, name);
  }

  /** A wait for a change lasts until its time is up; then the store is read again. */
  subscribe(): () => void {
    return () => {};
  }

  /** What was decided, with the revision that it got. */
  completed(text: string): string {
    return this.#written === undefined ? text : text.replaceAll(this.#placeholder, String(this.#written));
  }
}

const range = ServiceRange.parse(serviceRange);
if (range === undefined) throw new Error(`the range ${serviceRange}`);
const services: ServicePool = { range, holders: () => (claim) => ask({ kind: 'holder', claim }) };
/** What users hold is known to the other thread. */
const authorizer: Parameters<typeof standardAdmission>[0]['authorizer'] = {
  authorize: (user, attributes) => ask({ kind: 'authorize', user, attributes }),
  rulesHeldBy: (user, namespace) => ask({ kind: 'rules', user, namespace }),
};

const table = new ResourceTable(resources);

async function run(job: Job): Promise<Outcome> {
  const { verb, info, user, representation, nowMs, headers } = job;
  const store = new DistantStore();
  const clock = { ...systemClock, now: () => nowMs };
  const deps = { store, clock, random: systemRandom, services, authorizer };
  const handler = objectHandlers({ ...deps, admission: standardAdmission(deps) })[verb];
  const served = table.shownAt(info, info.resource, info.subresource);
  if (handler === undefined || served === undefined) throw new Error('a request for something that is not served');
  const query = new URLSearchParams(job.query);
  const warnings = new Warnings();
  const request: ApiRequest = {
    exchange: {
      header: (name: string) => headers[name],
      readBody: () => Promise.resolve(Buffer.from(job.body ?? [])),
    } as Partial<Exchange> as Exchange,
    info,
    served,
    resource: served.viewOf?.resource ?? served,
    query,
    user,
    representation,
    signal: new AbortController().signal,
    warn: (text) => warnings.add(text),
  };
  const reply = await handler(request);
  if (reply.kind !== 'object' && reply.kind !== 'list') throw new Error(`an answer of the kind ${reply.kind}`);
  const encoded = encodeReply(reply, { representation, resource: served, query, now: nowMs });
  const code = reply.kind === 'list' ? 200 : reply.code;
  const body = new TextEncoder().encode(store.completed(encoded.body));
  return { number: job.number, reply: { code, contentType: encoded.contentType, body }, warnings: warnings.texts };
}

parentPort?.on('message', (job: Job) => {
  void run(job)
    .catch((error: unknown): Outcome => {
      if (error instanceof StatusError) return { number: job.number, refusal: error.status, warnings: [] };
      return {
        number: job.number,
        failure: error instanceof Error ? error : new Error('unknown failure'),
        warnings: [],
      };
    })
    .then((outcome) =>
      parentPort?.postMessage(outcome, outcome.reply ? [outcome.reply.body.buffer as ArrayBuffer] : []),
    );
});
