/** What the server reports while it runs. A notice never contains a body, a token or the content of an object. */
export type ApiNotice =
  | RequestNotice
  /** A bug, or a disk that fails: the client got a 500. */
  | { readonly kind: 'RequestFailed'; readonly auditId: string; readonly error: unknown }
  /** At the start: some of what is stored cannot be read. The rest is served. */
  | { readonly kind: 'StoreDamaged'; readonly error: unknown }
  | {
      readonly kind: 'ControllerFailed';
      readonly controller: string;
      readonly object: string;
      readonly error: unknown;
    };

export interface RequestNotice {
  readonly kind: 'RequestServed';
  readonly auditId: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  readonly scope: 'resource' | 'namespace' | 'cluster' | '';
  readonly user: string;
  readonly userAgent: string;
  readonly remoteAddress: string;
  readonly code: number;
  readonly tookMs: number;
}

export type Notify = (notice: ApiNotice) => void;
