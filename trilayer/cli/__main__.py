"""The entry point of the `trilayer` command and of `python -m trilayer.cli`."""

import signal


def main() -> None:
    """Runs the command. Ctrl-C while modules are still loading ends it without a traceback."""
    loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if loading:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from trilayer.cli.main import main as run

    if loading:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
