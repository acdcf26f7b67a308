/** Field numbers of a pod and of what its node reports about it. The notation is explained in `message-notation.ts`. */
export const podStatusMessages: Readonly<Record<string, string>> = {
  Pod: '1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus',
  PodStatus: `
    17 observedGeneration int, 1 phase, 2 conditions [PodCondition], 3 message, 4 reason, 11 nominatedNodeName,
    5 hostIP, 16 hostIPs [HostIP], 6 podIP, 12 podIPs [PodIP], 7 startTime Time,
    10 initContainerStatuses [ContainerStatus], 8 containerStatuses [ContainerStatus], 9 qosClass,
    13 ephemeralContainerStatuses [ContainerStatus], 14 resize, 15 resourceClaimStatuses [PodResourceClaimStatus],
    18 extendedResourceClaimStatus? PodExtendedResourceClaimStatus, 19 allocatedResources {Quantity},
    20 resources? ResourceRequirements, 21 nodeAllocatableResourceClaimStatuses [NodeAllocatableResourceClaimStatus],
    22 volumeHealth [PodVolumeHealth]`,
  PodCondition: `
    1 type!, 7 observedGeneration int, 2 status!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason,
    6 message`,
  HostIP: '1 ip!',
  PodIP: '1 ip!',
  ContainerStatus: `
    1 name!, 2 state ContainerState, 3 lastState ContainerState, 4 ready! bool, 5 restartCount! int, 6 image!,
    7 imageID!, 8 containerID, 9 started? bool, 10 allocatedResources {Quantity}, 11 resources? ResourceRequirements,
    12 volumeMounts [VolumeMountStatus], 13 user? ContainerUser, 14 allocatedResourcesStatus [ResourceStatus],
    15 stopSignal?`,
  ContainerState: `
    1 waiting? ContainerStateWaiting, 2 running? ContainerStateRunning, 3 terminated? ContainerStateTerminated`,
  ContainerStateWaiting: '1 reason, 2 message',
  ContainerStateRunning: '1 startedAt Time',
  ContainerStateTerminated: `
    1 exitCode! int, 2 signal int, 3 reason, 4 message, 5 startedAt Time, 6 finishedAt Time, 7 containerID`,
  VolumeMountStatus: '1 name!, 2 mountPath!, 3 readOnly bool, 4 recursiveReadOnly?, 5 volumeStatus? VolumeStatus',
  ContainerUser: '1 linux? LinuxContainerUser',
  LinuxContainerUser: '1 uid! int, 2 gid! int, 3 supplementalGroups [int]',
  ResourceStatus: '1 name!, 2 resources [ResourceHealth]',
  ResourceHealth: '1 resourceID!, 2 health, 6 message?',
  PodResourceClaimStatus: '1 name!, 2 resourceClaimName?',
  PodExtendedResourceClaimStatus: '1 requestMappings [ContainerExtendedResourceRequest], 2 resourceClaimName!',
  ContainerExtendedResourceRequest: '1 containerName!, 2 resourceName!, 3 requestName!',
  NodeAllocatableResourceClaimStatus: `
    1 resourceClaimName!, 2 containers [string], 4 mapping [NodeAllocatableMappedResources],
    5 overhead [NodeAllocatableOverheadResources]`,
  NodeAllocatableMappedResources: '1 name!, 2 quantity? Quantity',
  NodeAllocatableOverheadResources: '1 name!, 2 perPod? Quantity, 3 perContainer? Quantity',
  PodVolumeHealth: '1 name!, 2 healthConditions [VolumeHealthCondition], 3 lastTransitionTime Time',
};
