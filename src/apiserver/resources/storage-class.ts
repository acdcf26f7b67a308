import { type StorageClass, storageClassKind } from '../../kube/kinds/storage/storage-class.ts';
import { ageColumn, nameColumn, text, yesNo } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

const defaultAnnotation = 'storageclass.kubernetes.io/is-default-class';

export const storageClasses = resource(storageClassKind, {
  columns: [
    { ...nameColumn, cell: nameOf },
    text('Provisioner', 'Who makes volumes of the class.', ({ provisioner }) => provisioner),
    text(
      'ReclaimPolicy',
      'What happens to a volume when its claim is gone.',
      (object) => object.reclaimPolicy ?? 'Delete',
    ),
    text('VolumeBindingMode', 'When a volume is chosen.', (object) => object.volumeBindingMode ?? 'Immediate'),
    yesNo('AllowVolumeExpansion', 'Whether volumes may grow.', (object) => object.allowVolumeExpansion ?? false),
    ageColumn,
  ],
  deleteAnswers: 'object',
});

function nameOf({ metadata: { name, annotations } }: StorageClass): string {
  return annotations?.[defaultAnnotation] === 'true' ? `${name} (default)` : name;
}
