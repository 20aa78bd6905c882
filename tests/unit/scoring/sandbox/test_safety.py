"""What model-written programs try against the machine, under each strong set of walls: none of it works."""

import importlib
import os
import socket
import time
from pathlib import Path

import pytest

from mmrl.scoring.sandbox import Job, Limits, Result, Tree, python_command, run
from mmrl.scoring.sandbox.walls import isolation, layers

REPOSITORY = Path(__file__).parents[4]
STRONG = (("bubblewrap", "landlock", "seccomp"), ("bubblewrap", "seccomp"), ("landlock", "seccomp"))


@pytest.fixture(params=STRONG, ids="+".join)
def walls(request: pytest.FixtureRequest) -> tuple[str, ...]:
    missing = set(request.param) - set(layers())
    if missing:
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")
    return request.param


def attack(code: str, walls: tuple[str, ...], **limits) -> Result:
    """The result of a program, which must be over within two seconds of its time limit."""
    chosen = Limits(**{"wall_s": 5.0, **limits})
    began = time.monotonic()
    result = run(Job(python_command(code), limits=chosen), walls=walls)
    assert time.monotonic() - began < chosen.wall_s + 2.0
    return result


def marked(text: str) -> list[str]:
    """Processes of this machine whose command line holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found


def test_the_machine_has_a_strong_sandbox_and_knows_it(walls):
    found = isolation(walls)
    assert found.strong and found.missing == ()


def test_bubblewrap_alone_is_enough_and_a_fork_bomb_in_it_is_ended():
    if "bubblewrap" not in layers():
        pytest.skip("this machine has no bubblewrap")
    assert isolation(("bubblewrap",)).strong
    bomb = "import os, time\nfor _ in range(100): os.fork() or time.sleep(9)\ntime.sleep(9)"
    assert attack(bomb, ("bubblewrap",)).killed_by == "processes"


def test_without_walls_the_probe_says_so():
    assert isolation(()).missing == ("files", "network", "processes")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/hostname", str(REPOSITORY / "pyproject.toml"), "/proc/1/cmdline"]
)
def test_files_outside_cannot_be_read(walls, path):
    result = attack(f"print(open({path!r}).read())", walls)
    assert result.exit_code == 1 and result.stdout == b""
    assert b"PermissionError" in result.stderr or b"FileNotFoundError" in result.stderr


def test_installed_packages_and_this_repository_cannot_be_imported(walls):
    result = attack("import importlib.util as u; print(u.find_spec('numpy'), u.find_spec('mmrl'))", walls)
    assert result.stdout == b"None None\n"


def test_symlinks_lead_nowhere(walls, tmp_path):
    (tmp_path / "secret").write_text("secret")
    code = f"import os; os.symlink({str(tmp_path / 'secret')!r}, 'link'); print(open('link').read())"
    assert b"secret" not in attack(code, walls).stdout


def test_a_collected_file_that_is_a_link_a_pipe_or_a_folder_is_not_read(walls):
    code = "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); os.mkdir('folder'); open('file', 'x')"
    job = Job(python_command(code), collect=("link", "pipe", "folder", "file", "absent"))
    assert run(job, walls=walls).files == {"file": b""}


def test_hard_links_to_files_outside_cannot_be_made(walls, tmp_path):
    (tmp_path / "secret").write_text("secret")
    job = Job(python_command(f"import os; os.link({str(tmp_path / 'secret')!r}, 'x')"), collect=("x",))
    result = run(job, walls=walls)
    assert result.exit_code == 1 and result.files == {}


@pytest.mark.parametrize(
    "action",
    [
        "open(P + '/new', 'w')",
        "open(P + '/old', 'w')",
        "os.truncate(P + '/old', 0)",
        "os.chmod(P + '/old', 0)",
        "os.utime(P + '/old', (0, 0))",
        "os.rename(P + '/old', P + '/moved')",
        "os.unlink(P + '/old')",
        "os.mkdir(P + '/folder')",
        "os.setxattr(P + '/old', 'user.x', b'1')",
    ],
)
def test_nothing_outside_can_be_changed(walls, tmp_path, action):
    old = tmp_path / "old"
    old.write_text("kept")
    before = old.stat()
    result = attack(f"import os; P = {str(tmp_path)!r}; {action}", walls)
    assert result.exit_code == 1, result.text("stderr")
    after = old.stat()
    assert (old.read_text(), after.st_mode, after.st_mtime_ns) == ("kept", before.st_mode, before.st_mtime_ns)
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_no_connection_to_this_machine_or_another(walls):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (("127.0.0.1", port), ("192.0.2.1", 80)):
            result = attack(f"import socket; socket.create_connection({address!r}, 2); print('connected')", walls)
            assert result.exit_code == 1 and result.stdout == b""
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_no_socket_of_any_family_and_no_pair_that_reaches_others(walls, tmp_path):
    """A pair of datagram sockets could be sent from to any Unix socket of the machine, by path or abstract name."""
    names = (str(tmp_path / "by-path"), f"\0mmrl-{os.getpid()}")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as by_path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        by_path.bind(names[0])
        abstract.bind(names[1])
        code = f"""
import socket
def tried(action):
    try:
        action()
        print("reached")
    except OSError:
        pass
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 38, 40):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        tried(lambda: socket.socket(family, kind))
tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    here, there = socket.socketpair(socket.AF_UNIX, kind)
    here.send(b"x")
    assert there.recv(1) == b"x"
    for name in {names!r}:
        there.close()
        tried(lambda: here.connect(name))
        tried(lambda: here.sendto(b"x", name))
        tried(lambda: here.bind(name))
tried(lambda: here.sendmsg([b"x"]))
print("done")
"""
        result = attack(code, walls)
        assert result.stdout == b"done\n", result.text("stderr")
        for server in (by_path, abstract):
            server.settimeout(0)
            with pytest.raises(BlockingIOError):
                server.recv(1)


def test_nothing_of_the_scorer_is_in_its_environment_or_processes(walls, monkeypatch):
    monkeypatch.setenv("MMRL_TEST_SECRET", "secret-of-the-scorer")
    code = f"""
import os
print(sorted(os.environ))
for path in ("/proc/1/environ", "/proc/self/environ", "/proc/{os.getpid()}/environ", "/proc/{os.getpid()}/mem",
             "/proc/{os.getpid()}/maps", "/proc/self/mem", "/proc/kcore", "/dev/mem", "/dev/kmsg"):
    try:
        open(path, "rb").read(1)
        print("read", path)
    except OSError:
        pass
print([n for n in range(3, 256) if os.path.exists(f"/dev/fd/{{n}}")])
for number in range(3, 256):
    try:
        os.fstat(number)
        print("open", number)
    except OSError:
        pass
"""
    names = ["HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONHASHSEED", "TMPDIR"]
    shown = attack(code, walls).text()
    assert shown.replace(", 'PWD'", "") == f"{names}\n[]\n" and "secret" not in shown


@pytest.mark.parametrize(
    "call", ["process_vm_readv(PARENT, 0, 0, 0, 0, 0)", "ptrace(16, PARENT, 0, 0)", "prctl(4, 0, 0, 0, 0)",
             "unshare(0x10000000)", "setns(0, 0)", "personality(0xffffffff)", "syscall(435, 0, 0)"]
)  # fmt: skip
def test_calls_by_number_are_refused(walls, call):
    code = f"import ctypes; print(ctypes.CDLL(None).{call.replace('PARENT', str(os.getpid()))})"
    result = attack(code, walls)
    assert result.stdout == b"-1\n", result


def test_standard_input_cannot_be_written(walls):
    result = run(Job(python_command("import os; os.write(0, b'x')"), stdin=b"input"), walls=walls)
    assert b"Bad file descriptor" in result.stderr


@pytest.mark.parametrize(
    ("code", "code_or_limit"),
    [
        ("import ctypes; ctypes.string_at(0)", {139, -11}),
        ("import os; os.abort()", {134, -6}),
        ("import os; os._exit(77)", {77}),
        ("import sys; sys.setrecursionlimit(10**9)\ndef f(n): return [f(n + 1)]\nf(0)", {"wall", 139, -11, 1}),
        ("import atexit, time; atexit.register(time.sleep, 100)", {"wall"}),
        ("class A:\n  def __del__(self):\n    while True: pass\na = A()", {"wall"}),
        ("import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n"
         "  except (OSError, ValueError): pass\nwhile True: pass", {"wall"}),
        ("import threading\nfor _ in range(10**6): threading.Thread(target=lambda: exec('while 1: pass')).start()",
         {"wall", "cpu", 1}),
        ("open('sparse', 'wb').truncate(10**15)", {1}),
        ("import mmap; mmap.mmap(-1, 2 * 10**9)", {1}),
    ],
)  # fmt: skip
def test_whatever_way_a_program_ends_or_does_not_the_scorer_goes_on(walls, code, code_or_limit):
    result = attack(code, walls, wall_s=2.0)
    assert (result.killed_by or result.exit_code) in code_or_limit, result


def test_an_endless_loop_is_ended(walls):
    result = attack("while True: pass", walls, wall_s=1.0)
    assert result.killed_by == "wall" and 1.0 <= result.seconds < 3.0


def test_sleeping_is_ended(walls):
    assert attack("import time; time.sleep(100)", walls, wall_s=1.0).killed_by == "wall"


def test_ten_gigabytes_of_output_are_cut_at_the_limit(walls):
    code = "import sys\nfor _ in range(10_000): sys.stdout.write('x' * 1_000_000)"
    result = attack(code, walls, output_bytes=200_000)
    assert result.killed_by == "output" and result.cut and len(result.stdout) == 200_000


def test_one_large_file_is_refused(walls):
    code = "f = open('big', 'wb')\nfor _ in range(100): f.write(b'x' * 1_000_000)"
    result = attack(code, walls, disk_bytes=3_000_000)
    assert result.exit_code != 0


def test_many_small_files_are_ended(walls):
    code = "import time\nfor i in range(100_000): open(f'f{i}', 'wb').write(b'x' * 10_000)\ntime.sleep(9)"
    assert attack(code, walls, disk_bytes=3_000_000).killed_by == "disk"


def test_files_that_are_deleted_and_held_open_count(walls):
    code = """
import os, time
for i in range(200):
    held = os.open("f", os.O_CREAT | os.O_RDWR)
    os.unlink("f")
    os.write(held, bytes(1_000_000))
time.sleep(9)
"""
    assert attack(code, walls, disk_bytes=30_000_000).killed_by == "disk"


def test_a_memory_bomb_gets_no_memory(walls):
    result = attack("x = bytearray(4_000_000_000)", walls, memory_bytes=500_000_000)
    assert result.exit_code == 1 and b"MemoryError" in result.stderr


def test_memory_that_is_no_address_space_cannot_be_had(walls):
    result = attack("import os; os.memfd_create('x')", walls)
    assert b"PermissionError" in result.stderr


def test_a_fork_bomb_starts_nothing(walls):
    result = attack("import os\nwhile True: os.fork()", walls)
    assert result.exit_code == 1 and b"PermissionError" in result.stderr


def test_where_processes_are_allowed_a_fork_bomb_is_ended(walls):
    result = attack(
        "import os, time\nfor _ in range(40):\n  os.fork() or time.sleep(9)\ntime.sleep(9)", walls, processes=8
    )
    assert result.killed_by == "processes"


@pytest.mark.parametrize("escape", ["", "os.setsid();", "os.setpgid(0, 0);"])
def test_no_process_is_left_behind(walls, escape):
    mark = f"left-behind-{os.getpid()}-{time.monotonic_ns()}"
    code = f"import os, time\nif os.fork() == 0:\n  {escape or 'pass'}\n  time.sleep(60)  # {mark}"
    run(Job(python_command(code.replace("os.set", "try:\n    os.set").replace(";", "\n  except OSError: pass")),
            limits=Limits(wall_s=5.0, processes=4)), walls=walls)  # fmt: skip
    assert marked(mark) == []


def test_the_scorer_and_its_limits_are_out_of_reach(walls):
    code = f"""
import os, resource
for action in (lambda: os.kill({os.getpid()}, 0), lambda: os.killpg({os.getpgid(0)}, 0),
               lambda: resource.prlimit({os.getpid()}, resource.RLIMIT_CPU), lambda: os.kill(-1, 0)):
    try:
        action()
        print("reached")
    except OSError:
        pass
print("done")
"""
    assert attack(code, walls).stdout == b"done\n"


def test_threads_and_own_signals_work(walls):
    code = """
import threading, os, signal
seen = []
threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
signal.signal(signal.SIGALRM, lambda *_: seen.append('alarm'))
signal.raise_signal(signal.SIGALRM)
print(sorted(map(str, seen)))
"""
    assert attack(code, walls).stdout == b"['0', '1', '2', '3', 'alarm']\n"


def test_the_next_job_sees_nothing_of_the_last(walls):
    attack("open('left', 'w').write('x')", walls)
    assert attack("import os; print(os.listdir('.'), os.listdir(os.environ['HOME']))", walls).stdout == b"[] []\n"


def test_a_scratch_folder_made_hard_to_remove_is_removed(walls, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = "import os, time\nos.mkdir('shut', 0)\nfor _ in range(300): os.mkdir('d'); os.chdir('d')\ntime.sleep(9)"
    assert attack(code, walls).killed_by == "disk"
    assert list(tmp_path.iterdir()) == []


def test_standard_input_files_and_environment_arrive(walls):
    code = "import os, sys; print(sys.stdin.read(), open('in.txt').read(), os.environ['X'], sorted(os.environ)[:2])"
    job = Job(python_command(code), files={"in.txt": b"file"}, stdin=b"input", env={"X": "1"})
    assert run(job, walls=walls).stdout == b"input file 1 ['HOME', 'LANG']\n"


def test_folders_that_a_killed_scorer_left_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runner = importlib.import_module("mmrl.scoring.sandbox.runner")
    runner._remove_stale.cache_clear()
    names = ("mmrl-sandbox-999999999-old", "mmrl-sandbox-999999998-new", f"mmrl-sandbox-{os.getpid()}-mine", "other")
    for name in names:
        (tmp_path / name).mkdir()
        if not name.endswith("new"):
            os.utime(tmp_path / name, (0, 0))
    run(Job(python_command("pass")))
    assert {p.name for p in tmp_path.iterdir()} == set(names) - {"mmrl-sandbox-999999999-old"}


def test_a_link_that_leads_nowhere_in_what_may_be_read_is_no_obstacle(walls, tmp_path):
    """Debian's standard library holds `sitecustomize.py`, a link into /etc."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "link.py").symlink_to(tmp_path / "gone.py")
    (tmp_path / "shown" / "file.py").write_text("shown")
    (tmp_path / "shown" / "hidden").mkdir()
    job = Job(
        python_command(f"import os; print(open({str(tmp_path / 'shown' / 'file.py')!r}).read())"),
        reads=(Tree(tmp_path / "shown", hidden=("hidden",)),),
    )
    assert run(job, walls=walls).stdout == b"shown\n"
