process.stdout.write('mountlet\n');
