/**
 * Requests whose work would hold the event loop for longer than the node beside it may wait: large bodies, changes of large
 * objects, lists that have to be parsed. The handlers that serve the others serve these too, in a worker thread
 * (request-worker.ts), whose store asks this thread: `get` and `list` are answered at once, and a write is made here, if
 * all that the worker has read is still what it was. So a write is as atomic as one that was decided here.
 *
 * One worker, because one busy thread beside this one is what a small machine has to spare. It is ended when it takes too
 * long or too much memory, and when it has been idle for a while.
 */
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import { Semaphore } from '../../base/semaphore.ts';
import type { ServiceClaims } from '../admission/service-claims.ts';
import type { Authorizer } from '../identity/authorization.ts';
import type { RequestAttributes, User } from '../identity/user.ts';
import { type Status, StatusError, entityTooLarge, timedOut, tooManyRequests } from '../model/status.ts';
import { objectKey, objectPrefix } from '../model/stored-objects.ts';
import { type ApiRequest, type Reply, type Representation, bodyBytesMax } from '../rest/api-request.ts';
import type { ResourceRequest } from '../rest/request-info.ts';
import { CompactedError, FutureRevisionError } from '../store/store-errors.ts';
import type { ListRequest, ListResult, Store, StoredObject } from '../store/store.ts';

/** About 10 ms of work for the most expensive bodies of that size; YAML is read a tenth as fast as JSON. */
const textLengthMax = 32 * 1024;
const yamlLengthMax = 4 * 1024;
/** Text that is parsed to select or to print its objects. */
const listLengthMax = 512 * 1024;
const listedLengthMax = 4 * 1024 * 1024;
export const workerDefaults = {
  /** The most expensive request that is within the limits takes about two seconds. */
  workMsMax: 20_000,
  heapMiBMax: 256,
};
export type LargeRequestLimits = typeof workerDefaults;
/** With the largest bodies, 48 MiB. */
const waitingMax = 16;
const idleMsMax = 10_000;

/** What the worker is given; whatever else it needs it asks for. */
export interface Job {
  readonly number: number;
  readonly verb: string;
  readonly info: ResourceRequest;
  readonly query: string;
  readonly user: User;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Uint8Array | undefined;
  readonly representation: Representation;
  readonly nowMs: number;
}

export type Question =
  | { readonly kind: 'revision' }
  | { readonly kind: 'get'; readonly key: string }
  | { readonly kind: 'list'; readonly request: ListRequest }
  | { readonly kind: 'holder'; readonly claim: string }
  | { readonly kind: 'authorize'; readonly user: User; readonly attributes: RequestAttributes }
  | { readonly kind: 'rules'; readonly user: User; readonly namespace: string }
  | Commit;

export interface Answers {
  readonly revision: number;
  readonly get: StoredObject | undefined;
  readonly list: ListResult | Gone;
  readonly holder: string | undefined;
  readonly authorize: ReturnType<Authorizer['authorize']>;
  readonly rules: ReturnType<Authorizer['rulesHeldBy']>;
  /** The revision of the write; undefined where something that was read has changed, so that it has to be decided again. */
  readonly commit: number | undefined;
}

/** Why a list cannot be had at the revision it was asked for. */
type Gone = Pick<CompactedError | FutureRevisionError, 'reason' | 'revision'>;

interface Commit {
  readonly kind: 'commit';
  readonly key: string;
  readonly type: 'put' | 'delete';
  readonly value: string;
  /** Takes the place of the revision in the value, as that is known only when it is written. */
  readonly placeholder: string;
  /** The revision of every object that was read, 0 for one that is absent. */
  readonly read: ReadonlyMap<string, number>;
}

export interface Outcome {
  /** Of the job. */
  readonly number: number;
  readonly reply?: { readonly code: number; readonly contentType: string; readonly body: Uint8Array };
  readonly refusal?: Status;
  /** What was thrown by mistake. */
  readonly failure?: Error;
  readonly warnings: readonly string[];
}

/** How the worker reaches this thread: it posts a question and sleeps until the flag is set. */
export interface WorkerData {
  readonly questions: MessagePort;
  readonly flag: SharedArrayBuffer;
  /** What Services get their addresses of. */
  readonly serviceRange: string;
}

interface RunningJob {
  readonly number: number;
  readonly worker: Worker;
  resolve(outcome: Outcome): void;
  /** Also with what the store throws when the worker asks it, whatever the worker makes of that. */
  reject(error: unknown): void;
}

interface LargeRequestsDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'now'>;
  readonly services: ServiceClaims;
  readonly authorizer: Pick<Authorizer, 'authorize' | 'rulesHeldBy'>;
}

export class LargeRequests {
  readonly #store: Store;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #services: ServiceClaims;
  readonly #authorizer: LargeRequestsDeps['authorizer'];
  readonly #limits: LargeRequestLimits;
  readonly #one = new Semaphore(1);
  #waiting = 0;
  #jobs = 0;
  #worker: Worker | undefined;
  #idle: NodeJS.Timeout | undefined;
  #job: RunningJob | undefined;

  constructor({ store, clock, services, authorizer }: LargeRequestsDeps, limits: LargeRequestLimits) {
    this.#store = store;
    this.#clock = clock;
    this.#services = services;
    this.#authorizer = authorizer;
    this.#limits = limits;
  }

  /** The answer, if the request is a large one. */
  async handle(verb: string, request: ApiRequest): Promise<Reply | undefined> {
    const body = takesBody(verb) ? await request.exchange.readBody(bodyBytesMax) : undefined;
    if (!this.#isLarge(request, body)) return undefined;
    if (this.#waiting >= waitingMax) throw tooManyRequests('Too many requests, please try again later.', 1);
    this.#waiting += 1;
    try {
      const release = await this.#one.acquire(request.signal);
      try {
        return await this.#work(verb, request, body);
      } finally {
        release();
      }
    } finally {
      this.#waiting -= 1;
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#worker?.terminate();
  }

  #isLarge(request: ApiRequest, body: Buffer | undefined): boolean {
    const { exchange, info, resource, query, representation: asked } = request;
    const isPlain = asked.format === 'json' && asked.as === 'object' && !asked.isPretty;
    if (body !== undefined) {
      const isYaml = /yaml/.test(exchange.header('content-type') ?? '') && body[0] !== 0x7b;
      const current = info.name === '' ? undefined : this.#store.get(objectKey(resource, info.namespace, info.name));
      return body.length > (isYaml ? yamlLengthMax : textLengthMax) || (current?.value.length ?? 0) > textLengthMax;
    }
    if (info.name !== '') {
      if (isPlain) return false;
      const length = this.#store.get(objectKey(resource, info.namespace, info.name))?.value.length ?? 0;
      return length > (asked.format === 'yaml' ? yamlLengthMax : textLengthMax);
    }
    const isSelected = (query.get('labelSelector') ?? '') !== '' || (query.get('fieldSelector') ?? '') !== '';
    // The usual question of a node, for one object by its name, needs no other to be read.
    if ((isPlain && !isSelected) || /(^|,)metadata\.name=/.test(query.get('fieldSelector') ?? '')) return false;
    let left = asked.format === 'yaml' ? yamlLengthMax : listLengthMax;
    const { items } = this.#store.list({ prefix: objectPrefix(resource, info.namespace), leavesOutDamaged: true });
    return items.some(({ value }) => (left -= value.length) < 0);
  }

  async #work(verb: string, request: ApiRequest, body: Buffer | undefined): Promise<Reply> {
    const { exchange, info, query, user, representation } = request;
    const names = ['content-type', 'user-agent', 'accept'];
    const headers = Object.fromEntries(names.map((name) => [name, exchange.header(name)]));
    const place = { verb, info, query: query.toString(), user, headers, representation };
    const { reply, refusal, failure, warnings } = await this.#send({ ...place, body, nowMs: this.#clock.now() });
    if (refusal !== undefined) throw StatusError.from(refusal);
    if (reply === undefined) throw failure ?? new Error('the worker gave no answer');
    for (const text of warnings) request.warn(text);
    const { code, contentType, body: bytes } = reply;
    return { kind: 'raw', code, headers: { 'content-type': contentType }, body: Buffer.from(bytes.buffer) };
  }

  async #send(job: Omit<Job, 'number'>): Promise<Outcome> {
    this.#jobs += 1;
    const number = this.#jobs;
    clearTimeout(this.#idle);
    const worker = (this.#worker ??= this.#start());
    const timer = setTimeout(() => this.#end(worker), this.#limits.workMsMax);
    try {
      return await new Promise<Outcome>((resolve, reject) => {
        this.#job = { number, worker, resolve, reject };
        worker.postMessage({ ...job, number } satisfies Job);
      });
    } finally {
      clearTimeout(timer);
      this.#idle = setTimeout(() => this.#end(worker), idleMsMax).unref();
    }
  }

  #end(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined;
    void worker.terminate();
  }

  #start(): Worker {
    const flag = new SharedArrayBuffer(4);
    const { port1: questions, port2: own } = new MessageChannel();
    const worker = new Worker(new URL('./request-worker.js', import.meta.url), {
      workerData: { questions, flag, serviceRange: this.#services.range.text } satisfies WorkerData,
      transferList: [questions],
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.heapMiBMax },
    });
    // A worker that was ended may still emit while the next one works.
    const job = (): RunningJob | undefined => (this.#job?.worker === worker ? this.#job : undefined);
    worker.on('message', (outcome: Outcome) => {
      // A job that failed here has its end there, later.
      if (job()?.number === outcome.number) job()?.resolve(outcome);
    });
    worker.on('error', (error) => {
      const isFull = errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY';
      const text = `it takes more than ${this.#limits.heapMiBMax} MiB of memory to work on`;
      job()?.reject(isFull ? entityTooLarge(text) : error);
    });
    worker.on('exit', () => {
      job()?.reject(timedOut('request did not complete within the allotted timeout'));
      this.#end(worker);
    });
    const answer = async (question: Question): Promise<void> => {
      try {
        own.postMessage({ answer: await this.#answer(question) });
      } catch (error) {
        job()?.reject(error);
        own.postMessage({});
      }
      Atomics.store(new Int32Array(flag), 0, 1);
      Atomics.notify(new Int32Array(flag), 0);
    };
    own.on('message', (question: Question) => void answer(question));
    return worker;
  }

  async #answer(question: Question): Promise<Answers[Question['kind']]> {
    switch (question.kind) {
      case 'revision':
        return this.#store.revision;
      case 'get':
        return this.#store.get(question.key);
      case 'list':
        return this.#list(question.request);
      case 'holder':
        return this.#services.holders()(question.claim);
      case 'authorize':
        return this.#authorizer.authorize(question.user, question.attributes);
      case 'rules':
        return this.#authorizer.rulesHeldBy(question.user, question.namespace);
      case 'commit':
        return this.#commit(question);
    }
  }

  /** No more at once than is copied in a few milliseconds; the worker goes on behind the last item. */
  #list(request: ListRequest): ListResult | Gone {
    try {
      const { items, revision, remaining } = this.#store.list(request);
      let left = listedLengthMax;
      const cut = items.findIndex(({ value }) => (left -= value.length) < 0) + 1;
      if (cut === 0) return { items, revision, remaining };
      return { items: items.slice(0, cut), revision, remaining: remaining + items.length - cut };
    } catch (error) {
      if (!(error instanceof CompactedError) && !(error instanceof FutureRevisionError)) throw error;
      return { reason: error.reason, revision: error.revision };
    }
  }

  #commit({ key, type, value, placeholder, read }: Commit): Promise<number | undefined> {
    return this.#store.update<number | undefined>(key, (current, revision) => {
      const now = (one: string): number => (one === key ? current : this.#store.get(one))?.revision ?? 0;
      for (const [one, at] of read) if (now(one) !== at) return { kind: 'keep', result: undefined };
      // What was free when it was decided may have gone to another meanwhile.
      if (type === 'put' && this.#services.isTaken(key, value)) return { kind: 'keep', result: undefined };
      return { kind: type, value: value.replace(placeholder, String(revision)), result: revision };
    });
  }
}

function takesBody(verb: string): boolean {
  return verb === 'create' || verb === 'update' || verb === 'patch';
}
