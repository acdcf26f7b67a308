/** Field numbers of a node and of what it reports about itself. The notation is explained in `message-notation.ts`. */
export const nodeMessages: Readonly<Record<string, string>> = {
  Node: '1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus',
  NodeSpec: `
    1 podCIDR, 7 podCIDRs [string], 3 providerID, 4 unschedulable bool, 5 taints [Taint],
    6 configSource? NodeConfigSource, 2 externalID, 8 podPreemptionPolicy? NodePodPreemptionPolicy`,
  Taint: '1 key!, 2 value, 3 effect!, 4 timeAdded Time',
  NodeConfigSource: '2 configMap? ConfigMapNodeConfigSource',
  ConfigMapNodeConfigSource: '1 namespace!, 2 name!, 3 uid, 4 resourceVersion, 5 kubeletConfigKey!',
  NodePodPreemptionPolicy: '1 disableResizePreemption [string]',
  NodeStatus: `
    1 capacity {Quantity}, 2 allocatable {Quantity}, 3 phase, 4 conditions [NodeCondition],
    5 addresses [NodeAddress], 6 daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo,
    8 images [ContainerImage], 9 volumesInUse [string], 10 volumesAttached [AttachedVolume],
    11 config? NodeConfigStatus, 12 runtimeHandlers [NodeRuntimeHandler], 13 features? NodeFeatures,
    14 declaredFeatures [string]`,
  NodeCondition: '1 type!, 2 status!, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, 5 reason, 6 message',
  NodeAddress: '1 type!, 2 address!',
  NodeDaemonEndpoints: '1 kubeletEndpoint DaemonEndpoint',
  DaemonEndpoint: '1 Port! int',
  NodeSystemInfo: `
    1 machineID!, 2 systemUUID!, 3 bootID!, 4 kernelVersion!, 5 osImage!, 6 containerRuntimeVersion!,
    7 kubeletVersion!, 8 kubeProxyVersion!, 9 operatingSystem!, 10 architecture!, 11 swap? NodeSwapStatus,
    12 runningInUserNamespace? bool`,
  NodeSwapStatus: '1 capacity? int',
  ContainerImage: '1 names [string], 2 sizeBytes int',
  AttachedVolume: '1 name!, 2 devicePath!',
  NodeConfigStatus: `
    1 assigned? NodeConfigSource, 2 active? NodeConfigSource, 3 lastKnownGood? NodeConfigSource, 4 error`,
  NodeRuntimeHandler: '1 name!, 2 features? NodeRuntimeHandlerFeatures',
  NodeRuntimeHandlerFeatures: '1 recursiveReadOnlyMounts? bool, 2 userNamespaces? bool',
  NodeFeatures: '1 supplementalGroupsPolicy? bool',
  Endpoints: '1 metadata ObjectMeta, 2 subsets [EndpointSubset]',
  EndpointSubset: '1 addresses [EndpointAddress], 2 notReadyAddresses [EndpointAddress], 3 ports [EndpointPort]',
  EndpointAddress: '1 ip!, 3 hostname, 4 nodeName?, 2 targetRef? ObjectReference',
  EndpointPort: '1 name, 2 port! int, 3 protocol, 4 appProtocol?',
};
