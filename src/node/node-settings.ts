/** What an operator decides about how this machine appears in the cluster. */
export interface NodeSettings {
  /** Also its hostname, as far as the cluster is concerned. */
  readonly nodeName: string;
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** Only when it registers: later they belong to the cluster. */
  readonly taints: readonly { readonly key: string; readonly value: string; readonly effect: string }[];
  readonly podsMax: number;
  /** Where the node's own server really listens; 0: it has none. */
  readonly port: number;
  /** A controller of the cluster attaches volumes, and not the node. */
  readonly controllerAttaches: boolean;
  /** How a cloud calls this machine; empty: there is none. */
  readonly providerId: string;
  /** `v1.33.0+mountlet`: clients adapt to it. */
  readonly kubeletVersion: string;
  /** `process://0.1.0`. */
  readonly runtimeVersion: string;
  readonly registersNode: boolean;
  readonly nodeStatusUpdateMs: number;
  readonly nodeStatusReportMs: number;
}
