import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  bodyTypeOf,
  contentTypeOf,
  discoveryConversions,
  isPretty,
  negotiateAnswer,
  NotAcceptableError,
  objectConversions,
  patchKindOf,
  UnsupportedMediaTypeError,
} from './media-types.ts';

const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';
const oldTable = 'application/json;as=Table;v=v1beta1;g=meta.k8s.io';
const discovery = (version: string): string =>
  `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;

const answers = [
  { it: 'no header', accept: undefined, form: 'application/json' },
  { it: 'an empty header', accept: '', form: 'application/json' },
  { it: 'anything', accept: '*/*', form: 'application/json' },
  { it: 'a lone star', accept: '*', form: 'application/json' },
  { it: 'any application type', accept: 'application/*', form: 'application/json' },
  { it: 'client-node', accept: 'application/json, */*;q=0.8', form: 'application/json' },
  { it: 'YAML', accept: 'application/yaml', form: 'application/yaml' },
  { it: 'YAML at a higher quality', accept: 'application/json;q=0.5, application/yaml', form: 'application/yaml' },
  {
    it: 'typed clients that prefer protobuf',
    accept: 'application/vnd.kubernetes.protobuf,application/json',
    form: 'application/json',
  },
  { it: 'kubectl get', accept: `${table},${oldTable},application/json`, form: 'application/json Table v1' },
  { it: 'an old kubectl get', accept: `${oldTable},application/json`, form: 'application/json Table v1beta1' },
  { it: 'a table in YAML', accept: table.replace('json', 'yaml'), form: 'application/yaml Table v1' },
  {
    it: 'a table in protobuf, which no server offers',
    accept: `${table.replace('json', 'vnd.kubernetes.protobuf')},application/json`,
    form: 'application/json',
  },
  {
    it: 'metadata only',
    accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
    form: 'application/json PartialObjectMetadataList v1',
  },
  {
    it: 'an unknown conversion first',
    accept: 'application/json;as=Chair;g=meta.k8s.io;v=v1, application/json',
    form: 'application/json',
  },
  {
    it: 'a table of another version first',
    accept: `${table.replace('v=v1', 'v=v2')},${oldTable}`,
    form: 'application/json Table v1beta1',
  },
  { it: 'half a conversion', accept: 'application/json;as=Table, application/yaml', form: 'application/yaml' },
  { it: 'a charset', accept: 'application/json; charset=utf-8', form: 'application/json' },
  { it: 'a stream of a watch', accept: 'application/json;stream=watch', form: 'application/json' },
  {
    it: 'an unknown stream first',
    accept: 'application/json;stream=river, application/yaml',
    form: 'application/yaml',
  },
  { it: 'nonsense between commas', accept: ',,text,a/b/c, application/json', form: 'application/json' },
  {
    it: 'a quality that is not a number',
    accept: 'application/yaml;q=high, application/json;q=0.1',
    form: 'application/json',
  },
  { it: 'HTML only', accept: 'text/html', form: undefined },
  { it: 'protobuf only', accept: 'application/vnd.kubernetes.protobuf', form: undefined },
  { it: 'nothing but a conversion that is not known', accept: 'application/json;as=Chair;g=g;v=v1', form: undefined },
];
for (const { it, accept, form } of answers) {
  test(`Accept of ${it} is ${form ?? 'refused'}`, () => {
    if (form === undefined) {
      assert.throws(() => negotiateAnswer(accept, objectConversions), NotAcceptableError);
      return;
    }
    const { type, conversion } = negotiateAnswer(accept, objectConversions);
    assert.equal([type, conversion?.kind, conversion?.version].filter(Boolean).join(' '), form);
  });
}

test('the refusal of an Accept header names what is offered', () => {
  assert.throws(() => negotiateAnswer('text/html', []), {
    message:
      'only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf',
    code: 406,
    reason: 'NotAcceptable',
  });
});

const discoveries = [
  { it: '1.26', accept: `${discovery('v2beta1')},application/json`, type: discovery('v2beta1') },
  { it: '1.30', accept: `${discovery('v2')},${discovery('v2beta1')},application/json`, type: discovery('v2') },
  { it: '1.36', accept: `${discovery('v2')};profile=nopeer,application/json`, type: discovery('v2') },
  { it: '1.25', accept: 'application/json, */*', type: 'application/json' },
];
for (const { it, accept, type } of discoveries) {
  test(`discovery as kubectl ${it} asks for it`, () => {
    assert.equal(contentTypeOf(negotiateAnswer(accept, discoveryConversions)), type);
  });
}

test('a table is plain JSON by its header', () => {
  assert.equal(contentTypeOf(negotiateAnswer(table, objectConversions)), 'application/json');
});

test('any Accept header is answered or refused', () => {
  const part = fc.constantFrom(
    'application/json',
    '*/*',
    ';',
    ',',
    '=',
    'as',
    'q=0.5',
    'g=',
    ' ',
    '/',
    'application/yaml;v=v1',
    'ü',
  );
  fc.assert(
    fc.property(
      fc.array(part).map((parts) => parts.join('')),
      (header) => {
        try {
          negotiateAnswer(header, objectConversions);
        } catch (error) {
          assert.ok(error instanceof NotAcceptableError);
        }
      },
    ),
  );
});

test('a body is JSON unless its header says otherwise', () => {
  assert.equal(bodyTypeOf(undefined), 'application/json');
  assert.equal(bodyTypeOf(''), 'application/json');
  assert.equal(bodyTypeOf('application/json; charset=utf-8'), 'application/json');
  assert.equal(bodyTypeOf('Application/YAML'), 'application/yaml');
  assert.equal(bodyTypeOf('application/vnd.kubernetes.protobuf'), 'application/vnd.kubernetes.protobuf');
  for (const other of ['text/plain', 'application/xml', ';', 'application/merge-patch+json']) {
    assert.throws(() => bodyTypeOf(other), {
      message:
        'the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf',
      code: 415,
    });
  }
});

test('a patch says which of four it is', () => {
  assert.equal(patchKindOf('application/json-patch+json'), 'json');
  assert.equal(patchKindOf('application/merge-patch+json;charset=utf-8'), 'merge');
  assert.equal(patchKindOf('application/strategic-merge-patch+json'), 'strategic');
  assert.equal(patchKindOf('application/apply-patch+yaml'), 'apply');
  for (const other of [undefined, '', 'application/json']) {
    assert.throws(
      () => patchKindOf(other),
      (error) => {
        assert.ok(error instanceof UnsupportedMediaTypeError);
        assert.match(
          error.message,
          /include: application\/json-patch\+json, application\/merge-patch\+json, application\/strategic-merge-patch\+json, application\/apply-patch\+yaml$/,
        );
        return true;
      },
    );
  }
});

test('people get indented JSON', () => {
  for (const agent of ['curl/8.0', 'Wget/1.2', 'Mozilla/5.0 (X11)']) assert.ok(isPretty(undefined, agent));
  assert.ok(isPretty('true', 'kubectl/v1.32'));
  assert.ok(isPretty('1', undefined));
  for (const value of ['false', '0', 'yes']) assert.ok(!isPretty(value, 'curl/8.0'), value);
  assert.ok(isPretty('', 'curl/8.0'));
  assert.ok(!isPretty(null, 'kubectl/v1.32'));
});
