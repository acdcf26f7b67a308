import { runtimeClassKind } from '../../kube/kinds/runtime-class.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const runtimeClasses = resource(runtimeClassKind, {
  columns: [nameColumn, text('Handler', 'What the node calls it.', ({ handler }) => handler), ageColumn],
  allowsCreateOnUpdate: true,
  allowsUnconditionalUpdate: false,
});
