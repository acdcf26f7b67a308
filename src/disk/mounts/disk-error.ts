/** What goes wrong on disk and is reported, not handled: the reason names the case and the message is for people. */
import { MountletError } from '../../base/errors.ts';

type DiskProblem =
  | 'AttachmentFailed'
  | 'AttachmentUnreadable'
  | 'BlockMappingFailed'
  | 'DamagedFile'
  | 'DirectoryInUse'
  | 'ExposedFile'
  | 'FileSystemInUse'
  | 'FileSystemResizeFailed'
  | 'FileSystemSilent'
  | 'FilesystemMismatch'
  | 'FormatFailed'
  | 'GetDiskFormatFailed'
  | 'HasFilesystemErrors'
  | 'HostPathCheckFailed'
  | 'InvalidFileSystemType'
  | 'InvalidMountPoint'
  | 'LoopDeviceFailed'
  | 'MemoryUnavailable'
  | 'MountFailed'
  | 'MountTableUnreadable'
  | 'NestedMountPointFailed'
  | 'NotABlockDevice'
  | 'NotADirectory'
  | 'NotBlank'
  | 'ProgramArgumentInvalid'
  | 'StorageTooSmall'
  | 'SubPathNotCleaned'
  | 'SubPathNotCreated'
  | 'SubPathNotPrepared'
  | 'UnformattedReadOnly'
  | 'UnreadableFile'
  | 'UnreadableSource'
  | 'UnsafeDirectory';

export class DiskError extends MountletError {
  readonly reason: DiskProblem;

  constructor(reason: DiskProblem, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
