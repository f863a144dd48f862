package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"pi-chrome/driver/op"
)

// How long a program in the sandbox has after a signal before it gets a
// stronger one.
const (
	afterInterrupt = 3 * time.Second
	afterTerminate = 5 * time.Second
)

// Command is a program to run in a sandbox. All fields but Dir are required.
type Command struct {
	Args           []string
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that the program shares a terminal with us, which sends
	// it the interrupt itself.
	Terminal bool
	// Signals are those that this process got; they are passed on.
	Signals <-chan os.Signal
}

// Signals returns the channel of the signals that Run passes on, and what
// gives them back.
func Signals() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return ch, func() { signal.Stop(ch) }
}

// Run runs a program in the sandbox and returns its exit code: 128 and the
// signal's number when a signal ended it.
func (s *Sandbox) Run(c Command) (int, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env = append(os.Environ(), s.Env()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = c.Stdin, c.Stdout, c.Stderr, c.Dir
	cmd.WaitDelay = afterTerminate
	if path, err := s.lookPath(c.Args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// A child that dies with its parent dies with the parent's thread:
		// this one stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(cmd)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return 0, op.Invalidf("%q cannot be run in the sandbox: %s", c.Args[0], reason(err)).WithHint("give a program and its arguments after --")
	}
	return exitCode(cmd, s.wait(cmd, c, ended))
}

// lookPath finds the program with the sandbox's own folder first.
func (s *Sandbox) lookPath(name string) (string, error) {
	if name == "pi-chrome" {
		return exec.LookPath(s.bin + string(os.PathSeparator) + name)
	}
	return exec.LookPath(name)
}

func reason(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}

// wait passes signals on until the program has ended. One that does not end
// after a signal gets a stronger one.
func (s *Sandbox) wait(cmd *exec.Cmd, c Command, ended <-chan error) error {
	// Signals to a program that has just ended are not an error.
	send := func(sig os.Signal) { _ = cmd.Process.Signal(sig) }
	var stronger <-chan time.Time
	next := os.Signal(syscall.SIGTERM)
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-c.Signals:
			if stronger != nil {
				next = os.Kill // asked twice
				stronger = time.After(0)
				continue
			}
			if sig == os.Interrupt {
				if !c.Terminal {
					send(sig)
				}
				stronger = time.After(afterInterrupt)
				continue
			}
			send(sig)
			next = os.Kill
			stronger = time.After(afterTerminate)
		case <-stronger:
			send(next)
			next = os.Kill
			stronger = time.After(afterTerminate)
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			return 0, fmt.Errorf("running the program in the sandbox: %w", err)
		}
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
