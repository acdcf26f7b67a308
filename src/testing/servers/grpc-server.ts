/** A gRPC server on a unix socket, for the scripted runtime, the relay and the test driver of storage. */
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

interface Service {
  readonly typeName: string;
  readonly methods: readonly DescMethod[];
}

/** Gets and gives bytes, whatever the messages are. */
export type BytesHandler = (
  method: DescMethod,
  call: ServerUnaryCall<Buffer, Buffer>,
  answer: sendUnaryData<Buffer>,
) => Promise<void>;

export async function serveBytes(
  socket: string,
  services: readonly Service[],
  handle: BytesHandler,
): Promise<{ forceShutdown(): void }> {
  const server = new Server();
  for (const { typeName, methods } of services) {
    const definition: Record<string, ServiceDefinition[string]> = {};
    const handlers: UntypedServiceImplementation = {};
    for (const method of methods) {
      definition[method.name] = {
        path: `/${typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: (bytes: Buffer) => bytes,
        requestDeserialize: (bytes: Buffer) => bytes,
        responseSerialize: (bytes: Buffer) => bytes,
        responseDeserialize: (bytes: Buffer) => bytes,
      };
      handlers[method.name] = (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) =>
        void handle(method, call, answer);
    }
    server.addService(definition, handlers);
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${socket}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  return server;
}

/** A failure with a code of gRPC. */
export class CallFailure extends Error {
  readonly code: keyof typeof status;

  constructor(code: keyof typeof status, message: string) {
    super(message);
    this.code = code;
  }
}

/** Answers with messages; what is thrown and is no CallFailure is `UNKNOWN`, as a server in Go answers. */
export function serveMessages(
  socket: string,
  services: readonly Service[],
  act: (method: DescMethod, request: Message) => Promise<MessageInitShape<DescMethod['output']>>,
): Promise<{ forceShutdown(): void }> {
  return serveBytes(socket, services, async (method, { request }, answer) => {
    try {
      const message = create(method.output, await act(method, fromBinary(method.input, request)));
      answer(null, Buffer.from(toBinary(method.output, message)));
    } catch (thrown) {
      const code = thrown instanceof CallFailure ? thrown.code : 'UNKNOWN';
      answer({ code: status[code], details: (thrown as Error).message });
    }
  });
}
