/** What workloads are made of. No controller here acts on it: clients and their own controllers do. */
import { type ControllerRevision, controllerRevisionKind } from '../../kube/kinds/controller-revision.ts';
import { type PodTemplate, podTemplateKind, podTemplateShape } from '../../kube/kinds/pod-template.ts';
import { means } from '../../kube/schema/equality.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { parseApiVersion, resource } from '../model/resource.ts';

export const podTemplates = resource(podTemplateKind, {
  prepareForCreate: (object) => withGeneration(object, 1),
  prepareForUpdate: (object, old) => {
    const before = old.metadata.generation ?? 0;
    const sameMetadata = { ...object, metadata: old.metadata };
    return withGeneration(object, means(podTemplateShape, sameMetadata, old) ? before : before + 1);
  },
  columns: [
    nameColumn,
    text('Containers', 'The names of the containers.', ({ template: { spec } }) =>
      spec.containers.map(({ name }) => name).join(','),
    ),
    text('Images', 'The images of the containers.', ({ template: { spec } }) =>
      spec.containers.map(({ image = '' }) => image).join(','),
    ),
    text('Pod Labels', 'The labels of the pods.', ({ template: { metadata } }) => labelsOf(metadata?.labels)),
  ],
  deleteAnswers: 'object',
});

export const controllerRevisions = resource(controllerRevisionKind, {
  columns: [
    nameColumn,
    text('Controller', 'The controller it belongs to.', controllerName),
    { name: 'Revision', type: 'string', description: 'Its number.', priority: 0, cell: ({ revision }) => revision },
    ageColumn,
  ],
});

function withGeneration(object: PodTemplate, generation: number): PodTemplate {
  return { ...object, metadata: { ...object.metadata, generation } };
}

function labelsOf(labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return orNone(pairs.sort(compareByteOrder).join(','));
}

/** `daemonset.apps/web` */
function controllerName({ metadata }: ControllerRevision): string {
  const controller = controllerOf(metadata);
  if (controller === undefined) return '<none>';
  const { group } = parseApiVersion(controller.apiVersion);
  const kind = group === '' ? controller.kind : `${controller.kind}.${group}`;
  return `${kind.toLowerCase()}/${controller.name}`;
}
