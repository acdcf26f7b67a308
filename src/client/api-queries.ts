/** What a request may ask for beside the place of its object: the API's query parameters. */
export interface Selection {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface ListQuery extends Selection {
  readonly resourceVersion?: string | undefined;
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan' | undefined;
  readonly limit?: number | undefined;
  readonly continue?: string | undefined;
}

export interface WatchQuery extends Selection {
  readonly resourceVersion?: string | undefined;
  readonly resourceVersionMatch?: 'NotOlderThan' | undefined;
  readonly allowWatchBookmarks?: boolean | undefined;
  readonly sendInitialEvents?: boolean | undefined;
  readonly timeoutSeconds?: number | undefined;
}

export interface GetOptions {
  /** `0` lets the server answer from its memory, which may be a little old. */
  readonly resourceVersion?: string | undefined;
}

export interface WriteOptions {
  readonly fieldManager?: string | undefined;
  readonly dryRun?: 'All' | undefined;
}

export interface PatchOptions extends WriteOptions {
  readonly type: 'merge' | 'strategic' | 'json' | 'apply';
  /** Of `apply`: take over fields that others own. */
  readonly force?: boolean | undefined;
}
