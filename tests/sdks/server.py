"""A server over a new folder, for the scripts beside this one."""

import subprocess
import sys


class Server:
    def __init__(self, program, folder, *settings):
        self.program, self.data = program, folder / "data"
        listeners = ["--public", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--ops", "127.0.0.1:0"]
        command = [program, "serve", "--data", self.data, *listeners]
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if line.startswith("ready "):
                listening = dict(part.split("=") for part in line.split()[1:])
                self.url = f"http://{listening['public']}"
                break
        else:
            sys.exit(f"the server ended before it was ready: {self.process.wait()}")

    def stop(self):
        self.process.terminate()
        self.process.stderr.close()
        if self.process.wait() != 0:
            sys.exit("the server did not stop cleanly")
