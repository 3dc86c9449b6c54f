"""NVRTC in a separate process, because it has no limits of its own: templates may take any time and memory, or crash it.

    python nvrtc_process.py LIBRARY BUILTINS... < job > answer

`job` is JSON: `text`, `path`, `number` (of the architecture), `flags`, `expressions`, and where some are not files
`headers`, their texts by name; without `text` nothing is compiled. `answer`
is JSON: `architectures`, which this NVRTC compiles for, `status` (0 where it compiled), `log`, then `ptx` and `names`, of each
expression its mangled name; or `failed`, the call that failed. It is run as a file, so that nothing of the package is imported.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any


class Failed(Exception):
    """A call of NVRTC that cannot fail, but for a damaged installation."""


class _Library:
    def __init__(self, path: str, builtins: list[str]) -> None:
        # NVRTC opens its builtins by bare name, which the dynamic linker finds only if they are loaded already.
        for name in builtins:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name: str, *arguments: object) -> int:
        """The status of one call."""
        return int(getattr(self._library, name)(*arguments))

    def require(self, doing: str, name: str, *arguments: object) -> None:
        """A call that must not fail. Raises Failed."""
        if (status := self.call(name, *arguments)) != 0:
            raise Failed(f"{doing} failed: {self._library.nvrtcGetErrorString(status).decode()}")

    def architectures(self) -> list[int]:
        """Compute capabilities (times ten) that it compiles for."""
        count = ctypes.c_int()
        self.require("listing architectures", "nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.require("listing architectures", "nvrtcGetSupportedArchs", numbers)
        return sorted(numbers)

    def text_of(self, what: str, program: ctypes.c_void_p) -> str:
        """`ProgramLog` or `PTX`."""
        size = ctypes.c_size_t()
        self.require(f"reading the {what}", f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.require(f"reading the {what}", f"nvrtcGet{what}", program, buffer)
        return buffer.value.decode(errors="replace")

    def compiled(self, job: dict[str, Any]) -> dict[str, Any]:
        """The answer to a job with a text. The process ends soon, so that the program is never destroyed."""
        program, text = ctypes.c_void_p(), job["text"].encode("utf-8", "surrogatepass")
        path = job["path"].encode("utf-8", "surrogatepass")
        headers = {name.encode(): body.encode("utf-8", "surrogatepass") for name, body in job.get("headers", {}).items()}
        strings = ctypes.c_char_p * len(headers)
        inside = len(headers), strings(*headers.values()), strings(*headers)
        self.require("reading the source", "nvrtcCreateProgram", ctypes.byref(program), text, path, *inside)
        for expression in job["expressions"]:
            doing = f"adding the kernel expression {expression!r}"
            self.require(doing, "nvrtcAddNameExpression", program, expression.encode("utf-8", "surrogatepass"))
        flags = [flag.encode("utf-8", "surrogatepass") for flag in job["flags"]]
        status = self.call("nvrtcCompileProgram", program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        answer: dict[str, Any] = {"status": status, "log": self.text_of("ProgramLog", program)}
        if status == 0:
            answer |= {"ptx": self.text_of("PTX", program), "names": {}}
            for expression in job["expressions"]:
                name = ctypes.c_char_p()
                doing = f"naming the kernel expression {expression!r}"
                self.require(doing, "nvrtcGetLoweredName", program, expression.encode("utf-8", "surrogatepass"), ctypes.byref(name))
                answer["names"][expression] = (name.value or b"").decode()
        return answer


def main() -> int:
    """See the module's text."""
    job = json.loads(sys.stdin.buffer.read())
    try:
        library = _Library(sys.argv[1], sys.argv[2:])
        answer: dict[str, Any] = {"architectures": library.architectures()}
        if "text" in job and job["number"] in answer["architectures"]:
            answer |= library.compiled(job)
    except OSError as error:
        answer = {"failed": f"loading it failed: {error}"}
    except Failed as error:
        answer = {"failed": str(error)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
