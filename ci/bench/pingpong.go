package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"graphql-limit-count/ci/subprocess"
	"graphql-limit-count/internal/extplugin"
	"graphql-limit-count/plugins"
)

// The frames of the protocol, as far as the ping-pong tells them apart.
const (
	frameHeader  = 4 // bytes: the type, and the payload's length in big-endian order
	framePrepare = 1
	frameInfo    = 3

	// readBuffer holds a usual frame whole, so that one system call reads it.
	readBuffer = 4 << 10
)

// conversation is the frames of one call, as they went over the wire.
type conversation struct {
	// Token answers a configuration.
	Token []byte
	// Call is the client's, Questions are what the runner asks in one write, Answers what
	// it is told, and Result ends the call.
	Call, Questions, Answers, Result []byte
}

// questions is how many questions there are.
func (c *conversation) questions() int { return len(frames(c.Questions)) }

// recorder keeps what goes over a connection.
type recorder struct {
	net.Conn
	sent, received bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.Conn.Write(p)
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.received.Write(p[:n])
	return n, err
}

// take returns what was kept and forgets it.
func (r *recorder) take() (sent, received []byte) {
	sent, received = bytes.Clone(r.sent.Bytes()), bytes.Clone(r.received.Bytes())
	r.sent.Reset()
	r.received.Reset()
	return sent, received
}

// record makes a call of the usual kind over a connection, which it closes, and returns
// its frames.
func record(ctx context.Context, nc net.Conn, conf string) (*conversation, error) {
	wire := &recorder{Conn: nc}
	client := extplugin.NewClient(wire)
	defer func() { _ = client.Close() }() // nothing is under way
	token, err := client.PrepareConf(ctx, wireKey, []extplugin.NamedConf{{Name: plugins.Name, Value: conf}})
	if err != nil {
		return nil, err
	}
	c := &conversation{}
	_, c.Token = wire.take()
	if _, err := client.HTTPReqCall(ctx, wireRequest(token), wireAnswers(wireRequestBody())); err != nil {
		return nil, err
	}
	sent, received := wire.take()
	mine, theirs := frames(sent), frames(received)
	if len(mine) != len(theirs) || len(mine) < 2 {
		return nil, fmt.Errorf("a call takes %d frames and %d back, not two exchanges", len(mine), len(theirs))
	}
	last := len(theirs) - 1
	c.Call, c.Answers = mine[0], bytes.Join(mine[1:], nil)
	c.Questions, c.Result = bytes.Join(theirs[:last], nil), theirs[last]
	return c, nil
}

// frames cuts a stream into its frames.
func frames(stream []byte) (all [][]byte) {
	for len(stream) >= frameHeader {
		length := min(frameHeader+payloadLength(stream), len(stream))
		all = append(all, stream[:length:length])
		stream = stream[length:]
	}
	return all
}

func payloadLength(header []byte) int {
	return int(header[1])<<16 | int(header[2])<<8 | int(header[3])
}

// pingpongChild starts the ping-pong as a process of its own: its arguments are the socket
// to listen on; standard input holds the conversation, and is closed to end it.
const pingpongChild = "pingpong"

// pingpongProcess is the ping-pong, running.
type pingpongProcess struct {
	endpoint
	command *exec.Cmd
	in      io.Closer
}

// startPingpong starts the floor for a runner: a server that moves the same frames and
// does nothing else. To be stopped.
func (b *bench) startPingpong(ctx context.Context, of *runnerProcess) (*pingpongProcess, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "unix", of.socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the runner: %w", err)
	}
	c, err := record(ctx, nc, of.conf)
	if err != nil {
		return nil, fmt.Errorf("recording a call: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p := &pingpongProcess{endpoint: of.endpoint}
	p.socket = filepath.Join(b.folder, "pingpong")
	p.command = exec.CommandContext(ctx, self, pingpongChild, p.socket)
	p.command.Stderr = os.Stderr
	subprocess.EndWithParent(p.command)
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the ping-pong: %w", err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the ping-pong: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the ping-pong: %w", err)
	}
	p.in = in
	if err := json.NewEncoder(in).Encode(c); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the ping-pong: %w", err), p.stop())
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the ping-pong: %w", err), p.stop())
	}
	return p, nil
}

func (p *pingpongProcess) stop() error {
	if err := errors.Join(p.in.Close(), p.command.Wait()); err != nil {
		return fmt.Errorf("stopping the ping-pong: %w", err)
	}
	return nil
}

// servePingpong is the process: it listens, says so, and serves until its input ends.
func servePingpong(args []string) error {
	if len(args) != 1 {
		return errors.New("the ping-pong takes a socket")
	}
	in := json.NewDecoder(os.Stdin)
	c := &conversation{}
	if err := in.Decode(c); err != nil {
		return fmt.Errorf("reading the conversation: %w", err)
	}
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { c.acceptAll(l) })
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, this does
	err = l.Close()
	serving.Wait()
	return err
}

// acceptAll serves connections until the listener is closed; they end with the process.
func (c *conversation) acceptAll(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go c.serve(nc)
	}
}

// serve answers calls on a connection: reads a frame, asks, reads the answers, ends the call.
func (c *conversation) serve(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	in := bufio.NewReaderSize(nc, readBuffer)
	questions := c.questions()
	for {
		kind, err := skipFrame(in)
		if err != nil {
			return
		}
		if kind == framePrepare {
			_, err = nc.Write(c.Token)
		} else {
			err = c.answerCall(nc, in, questions)
		}
		if err != nil {
			return
		}
	}
}

func (c *conversation) answerCall(nc net.Conn, in *bufio.Reader, questions int) error {
	if _, err := nc.Write(c.Questions); err != nil {
		return err
	}
	for range questions {
		if kind, err := skipFrame(in); err != nil || kind != frameInfo {
			return errors.Join(err, fmt.Errorf("a frame of type %d", kind))
		}
	}
	_, err := nc.Write(c.Result)
	return err
}

// skipFrame reads a frame and returns its type.
func skipFrame(in *bufio.Reader) (kind byte, err error) {
	header, err := in.Peek(frameHeader)
	if err != nil {
		return 0, err
	}
	kind = header[0]
	_, err = in.Discard(frameHeader + payloadLength(header))
	return kind, err
}
