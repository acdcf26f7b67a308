/** Field numbers of volumes, persistent volumes and claims. The notation is explained in `message-notation.ts`. */
export const volumeMessages: Readonly<Record<string, string>> = {
  Volume: '1 name!, 2 ...VolumeSource',
  VolumeSource: `
    1 hostPath? HostPathVolumeSource, 2 emptyDir? EmptyDirVolumeSource,
    3 gcePersistentDisk? GCEPersistentDiskVolumeSource, 4 awsElasticBlockStore? AWSElasticBlockStoreVolumeSource,
    5 gitRepo? GitRepoVolumeSource, 6 secret? SecretVolumeSource, 7 nfs? NFSVolumeSource, 8 iscsi? ISCSIVolumeSource,
    9 glusterfs? GlusterfsVolumeSource, 10 persistentVolumeClaim? PersistentVolumeClaimVolumeSource,
    11 rbd? RBDVolumeSource, 12 flexVolume? FlexVolumeSource, 13 cinder? CinderVolumeSource,
    14 cephfs? CephFSVolumeSource, 15 flocker? FlockerVolumeSource, 16 downwardAPI? DownwardAPIVolumeSource,
    17 fc? FCVolumeSource, 18 azureFile? AzureFileVolumeSource, 19 configMap? ConfigMapVolumeSource,
    20 vsphereVolume? VsphereVirtualDiskVolumeSource, 21 quobyte? QuobyteVolumeSource,
    22 azureDisk? AzureDiskVolumeSource, 23 photonPersistentDisk? PhotonPersistentDiskVolumeSource,
    26 projected? ProjectedVolumeSource, 24 portworxVolume? PortworxVolumeSource, 25 scaleIO? ScaleIOVolumeSource,
    27 storageos? StorageOSVolumeSource, 28 csi? CSIVolumeSource, 29 ephemeral? EphemeralVolumeSource,
    30 image? ImageVolumeSource`,
  HostPathVolumeSource: '1 path!, 2 type?',
  EmptyDirVolumeSource: '1 medium, 2 sizeLimit? Quantity, 3 mode? int',
  GCEPersistentDiskVolumeSource: '1 pdName!, 2 fsType, 3 partition int, 4 readOnly bool',
  AWSElasticBlockStoreVolumeSource: '1 volumeID!, 2 fsType, 3 partition int, 4 readOnly bool',
  GitRepoVolumeSource: '1 repository!, 2 revision, 3 directory',
  SecretVolumeSource: '1 secretName, 2 items [KeyToPath], 3 defaultMode? int, 4 optional? bool, 5 defaultUser? int',
  KeyToPath: '1 key!, 2 path!, 3 mode? int, 4 user? int',
  NFSVolumeSource: '1 server!, 2 path!, 3 readOnly bool',
  ISCSIVolumeSource: `
    1 targetPortal!, 2 iqn!, 3 lun! int, 4 iscsiInterface, 5 fsType, 6 readOnly bool, 7 portals [string],
    8 chapAuthDiscovery bool, 11 chapAuthSession bool, 10 secretRef? LocalObjectReference, 12 initiatorName?`,
  GlusterfsVolumeSource: '1 endpoints!, 2 path!, 3 readOnly bool',
  PersistentVolumeClaimVolumeSource: '1 claimName!, 2 readOnly bool',
  RBDVolumeSource: `
    1 monitors [string], 2 image!, 3 fsType, 4 pool, 5 user, 6 keyring, 7 secretRef? LocalObjectReference,
    8 readOnly bool`,
  FlexVolumeSource: '1 driver!, 2 fsType, 3 secretRef? LocalObjectReference, 4 readOnly bool, 5 options {string}',
  CinderVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool, 4 secretRef? LocalObjectReference',
  CephFSVolumeSource: `
    1 monitors [string], 2 path, 3 user, 4 secretFile, 5 secretRef? LocalObjectReference, 6 readOnly bool`,
  FlockerVolumeSource: '1 datasetName, 2 datasetUUID',
  DownwardAPIVolumeSource: '1 items [DownwardAPIVolumeFile], 2 defaultMode? int, 3 defaultUser? int',
  DownwardAPIVolumeFile: `
    1 path!, 2 fieldRef? ObjectFieldSelector, 3 resourceFieldRef? ResourceFieldSelector, 4 mode? int, 5 user? int`,
  FCVolumeSource: '1 targetWWNs [string], 2 lun? int, 3 fsType, 4 readOnly bool, 5 wwids [string]',
  AzureFileVolumeSource: '1 secretName!, 2 shareName!, 3 readOnly bool',
  ConfigMapVolumeSource: `
    1 ...LocalObjectReference, 2 items [KeyToPath], 3 defaultMode? int, 4 optional? bool, 5 defaultUser? int`,
  VsphereVirtualDiskVolumeSource: '1 volumePath!, 2 fsType, 3 storagePolicyName, 4 storagePolicyID',
  QuobyteVolumeSource: '1 registry!, 2 volume!, 3 readOnly bool, 4 user, 5 group, 6 tenant',
  AzureDiskVolumeSource: '1 diskName!, 2 diskURI!, 3 cachingMode?, 4 fsType?, 5 readOnly? bool, 6 kind?',
  PhotonPersistentDiskVolumeSource: '1 pdID!, 2 fsType',
  ProjectedVolumeSource: '1 sources [VolumeProjection], 2 defaultMode? int, 3 defaultUser? int',
  VolumeProjection: `
    1 secret? SecretProjection, 2 downwardAPI? DownwardAPIProjection, 3 configMap? ConfigMapProjection,
    4 serviceAccountToken? ServiceAccountTokenProjection, 5 clusterTrustBundle? ClusterTrustBundleProjection,
    6 podCertificate? PodCertificateProjection`,
  SecretProjection: '1 ...LocalObjectReference, 2 items [KeyToPath], 4 optional? bool',
  DownwardAPIProjection: '1 items [DownwardAPIVolumeFile]',
  ConfigMapProjection: '1 ...LocalObjectReference, 2 items [KeyToPath], 4 optional? bool',
  ServiceAccountTokenProjection: '1 audience, 2 expirationSeconds? int, 3 path!, 4 user? int',
  ClusterTrustBundleProjection: `
    1 name?, 2 signerName?, 3 labelSelector? LabelSelector, 5 optional? bool, 4 path!, 6 user? int`,
  PodCertificateProjection: `
    1 signerName, 2 keyType, 3 maxExpirationSeconds? int, 4 credentialBundlePath, 5 keyPath, 6 certificateChainPath,
    7 userAnnotations {string}, 8 user? int`,
  PortworxVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool',
  ScaleIOVolumeSource: `
    1 gateway!, 2 system!, 3 secretRef? LocalObjectReference, 4 sslEnabled bool, 5 protectionDomain, 6 storagePool,
    7 storageMode, 8 volumeName, 9 fsType, 10 readOnly bool`,
  StorageOSVolumeSource: `
    1 volumeName, 2 volumeNamespace, 3 fsType, 4 readOnly bool, 5 secretRef? LocalObjectReference`,
  CSIVolumeSource: `
    1 driver!, 2 readOnly? bool, 3 fsType?, 4 volumeAttributes {string},
    5 nodePublishSecretRef? LocalObjectReference`,
  EphemeralVolumeSource: '1 volumeClaimTemplate? PersistentVolumeClaimTemplate',
  PersistentVolumeClaimTemplate: '1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec',
  PersistentVolumeClaimSpec: `
    1 accessModes [string], 4 selector? LabelSelector, 2 resources VolumeResourceRequirements, 3 volumeName,
    5 storageClassName?, 6 volumeMode?, 7 dataSource? TypedLocalObjectReference,
    8 dataSourceRef? TypedObjectReference, 9 volumeAttributesClassName?`,
  VolumeResourceRequirements: '1 limits {Quantity}, 2 requests {Quantity}',
  ImageVolumeSource: '1 reference, 2 pullPolicy',
  Affinity: '1 nodeAffinity? NodeAffinity, 2 podAffinity? PodAffinity, 3 podAntiAffinity? PodAffinity',
  NodeAffinity: `
    1 requiredDuringSchedulingIgnoredDuringExecution? NodeSelector,
    2 preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm]`,
  PreferredSchedulingTerm: '1 weight! int, 2 preference NodeSelectorTerm',
  PodAffinity: `
    1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm],
    2 preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm]`,
  PodAffinityTerm: `
    1 labelSelector? LabelSelector, 2 namespaces [string], 3 topologyKey!, 4 namespaceSelector? LabelSelector,
    5 matchLabelKeys [string], 6 mismatchLabelKeys [string]`,
  WeightedPodAffinityTerm: '1 weight! int, 2 podAffinityTerm PodAffinityTerm',
  VolumeStatus: '1 image? ImageVolumeStatus',
  ImageVolumeStatus: '1 imageRef',
  VolumeHealthCondition: '1 status!, 2 reason!, 3 message',
  Namespace: '1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus',
  NamespaceSpec: '1 finalizers [string]',
  NamespaceStatus: '1 phase, 2 conditions [NamespaceCondition]',
  NamespaceCondition: '1 type!, 2 status!, 4 lastTransitionTime Time, 5 reason, 6 message',
  PersistentVolume: '1 metadata ObjectMeta, 2 spec PersistentVolumeSpec, 3 status PersistentVolumeStatus',
  PersistentVolumeSpec: `
    1 capacity {Quantity}, 2 ...PersistentVolumeSource, 3 accessModes [string], 4 claimRef? ObjectReference,
    5 persistentVolumeReclaimPolicy, 6 storageClassName, 7 mountOptions [string], 8 volumeMode?,
    9 nodeAffinity? VolumeNodeAffinity, 10 volumeAttributesClassName?`,
  PersistentVolumeSource: `
    1 gcePersistentDisk? GCEPersistentDiskVolumeSource, 2 awsElasticBlockStore? AWSElasticBlockStoreVolumeSource,
    3 hostPath? HostPathVolumeSource, 4 glusterfs? GlusterfsPersistentVolumeSource, 5 nfs? NFSVolumeSource,
    6 rbd? RBDPersistentVolumeSource, 7 iscsi? ISCSIPersistentVolumeSource, 8 cinder? CinderPersistentVolumeSource,
    9 cephfs? CephFSPersistentVolumeSource, 10 fc? FCVolumeSource, 11 flocker? FlockerVolumeSource,
    12 flexVolume? FlexPersistentVolumeSource, 13 azureFile? AzureFilePersistentVolumeSource,
    14 vsphereVolume? VsphereVirtualDiskVolumeSource, 15 quobyte? QuobyteVolumeSource,
    16 azureDisk? AzureDiskVolumeSource, 17 photonPersistentDisk? PhotonPersistentDiskVolumeSource,
    18 portworxVolume? PortworxVolumeSource, 19 scaleIO? ScaleIOPersistentVolumeSource, 20 local? LocalVolumeSource,
    21 storageos? StorageOSPersistentVolumeSource, 22 csi? CSIPersistentVolumeSource`,
  GlusterfsPersistentVolumeSource: '1 endpoints!, 2 path!, 3 readOnly bool, 4 endpointsNamespace?',
  RBDPersistentVolumeSource: `
    1 monitors [string], 2 image!, 3 fsType, 4 pool, 5 user, 6 keyring, 7 secretRef? SecretReference,
    8 readOnly bool`,
  ISCSIPersistentVolumeSource: `
    1 targetPortal!, 2 iqn!, 3 lun! int, 4 iscsiInterface, 5 fsType, 6 readOnly bool, 7 portals [string],
    8 chapAuthDiscovery bool, 11 chapAuthSession bool, 10 secretRef? SecretReference, 12 initiatorName?`,
  CinderPersistentVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool, 4 secretRef? SecretReference',
  CephFSPersistentVolumeSource: `
    1 monitors [string], 2 path, 3 user, 4 secretFile, 5 secretRef? SecretReference, 6 readOnly bool`,
  FlexPersistentVolumeSource: '1 driver!, 2 fsType, 3 secretRef? SecretReference, 4 readOnly bool, 5 options {string}',
  AzureFilePersistentVolumeSource: '1 secretName!, 2 shareName!, 3 readOnly bool, 4 secretNamespace?',
  ScaleIOPersistentVolumeSource: `
    1 gateway!, 2 system!, 3 secretRef? SecretReference, 4 sslEnabled bool, 5 protectionDomain, 6 storagePool,
    7 storageMode, 8 volumeName, 9 fsType, 10 readOnly bool`,
  LocalVolumeSource: '1 path!, 2 fsType?',
  StorageOSPersistentVolumeSource: `
    1 volumeName, 2 volumeNamespace, 3 fsType, 4 readOnly bool, 5 secretRef? ObjectReference`,
  CSIPersistentVolumeSource: `
    1 driver!, 2 volumeHandle!, 3 readOnly bool, 4 fsType, 5 volumeAttributes {string},
    6 controllerPublishSecretRef? SecretReference, 7 nodeStageSecretRef? SecretReference,
    8 nodePublishSecretRef? SecretReference, 9 controllerExpandSecretRef? SecretReference,
    10 nodeExpandSecretRef? SecretReference`,
  VolumeNodeAffinity: '1 required? NodeSelector',
  PersistentVolumeStatus: '1 phase, 2 message, 3 reason, 4 lastPhaseTransitionTime Time',
  PersistentVolumeClaim: `
    1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec, 3 status PersistentVolumeClaimStatus`,
  PersistentVolumeClaimStatus: `
    1 phase, 2 accessModes [string], 3 capacity {Quantity}, 4 conditions [PersistentVolumeClaimCondition],
    5 allocatedResources {Quantity}, 7 allocatedResourceStatuses {string}, 8 currentVolumeAttributesClassName?,
    9 modifyVolumeStatus? ModifyVolumeStatus, 10 healthStatus? VolumeHealthStatus`,
  PersistentVolumeClaimCondition: `
    1 type!, 2 status!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason, 6 message`,
  ModifyVolumeStatus: '1 targetVolumeAttributesClassName, 2 status!',
  VolumeHealthStatus: '1 healthConditions [VolumeHealthCondition], 2 lastTransitionTime Time',
};
