/** A server of the container runtime interface that answers as a test says: for what no real runtime does on command. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DescMethod, type Message, type MessageInitShape, create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceDefinition,
  type UntypedServiceImplementation,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';

type Methods = (typeof RuntimeService)['method'] & (typeof ImageService)['method'];

/** What a method answers; one that is not there is unimplemented, one that never resolves hangs. */
export type RuntimeScript = {
  [Name in keyof Methods]?: (
    request: Message,
  ) => MessageInitShape<Methods[Name]['output']> | Promise<MessageInitShape<Methods[Name]['output']>>;
};

/** Thrown by a script. */
export class ScriptedFailure extends Error {
  readonly code: keyof typeof status;

  constructor(code: keyof typeof status, message: string) {
    super(message);
    this.code = code;
  }
}

/** Resolves with its endpoint. The script may be changed while it runs. */
export async function startScriptedRuntime(
  test: { after(act: () => void): void },
  script: RuntimeScript,
): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'cri-'));
  const server = new Server();
  for (const { typeName, methods } of [RuntimeService, ImageService]) {
    const definition: Record<string, ServiceDefinition[string]> = {};
    const handlers: UntypedServiceImplementation = {};
    for (const method of methods) {
      definition[method.name] = {
        path: `/${typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: (bytes: Buffer) => bytes,
        requestDeserialize: (bytes: Buffer) => fromBinary(method.input, bytes),
        responseSerialize: (message: Message) => Buffer.from(toBinary(method.output, message)),
        responseDeserialize: (bytes: Buffer) => bytes,
      };
      handlers[method.name] = (call: ServerUnaryCall<Message, Message>, answer: sendUnaryData<Message>) =>
        void answerWith(script, method, call, answer);
    }
    server.addService(definition, handlers);
  }
  const endpoint = `unix://${join(directory, 'runtime.sock')}`;
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(endpoint, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
  });
  test.after(() => {
    server.forceShutdown();
    rmSync(directory, { recursive: true, force: true });
  });
  return endpoint;
}

async function answerWith(
  script: RuntimeScript,
  method: DescMethod,
  { request }: ServerUnaryCall<Message, Message>,
  answer: sendUnaryData<Message>,
): Promise<void> {
  const act = script[method.localName as keyof Methods];
  try {
    if (act === undefined) throw new ScriptedFailure('UNIMPLEMENTED', `unknown method ${method.name}`);
    answer(null, create(method.output, await act(request)));
  } catch (thrown) {
    const { code, message } = thrown as ScriptedFailure;
    answer({ code: status[code], details: message });
  }
}
