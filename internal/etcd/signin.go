package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

const (
	// authenticate is the call by which a user signs in, and authService its service.
	authenticate = "/etcdserverpb.Auth/Authenticate"
	authService  = "/etcdserverpb.Auth"
)

// signIn signs a user in and adds the token that it gets to every call. It does so when a
// server first asks for it, and again when a server does not know the token: tokens expire, and
// a server that was restarted knows none.
//
// etcd's client can do that, but it signs in while it is made, which waits for a server, and it
// signs in again with the old token, which etcd 3.4 refuses because the old one is not valid.
type signIn struct {
	username, password string
	token              atomic.Pointer[string] // nil before the first sign-in
	busy               chan struct{}          // holds one while somebody signs in
}

var _ credentials.PerRPCCredentials = (*signIn)(nil)

func newSignIn(username, password string) *signIn {
	return &signIn{username: username, password: password, busy: make(chan struct{}, 1)}
}

// options make a connection use it.
func (s *signIn) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithPerRPCCredentials(s),
		grpc.WithChainUnaryInterceptor(s.unary),
		grpc.WithChainStreamInterceptor(s.stream),
	}
}

// GetRequestMetadata returns the token, for calls other than that which gets one.
func (s *signIn) GetRequestMetadata(_ context.Context, uri ...string) (map[string]string, error) {
	token := s.token.Load()
	signing := slices.ContainsFunc(uri, func(u string) bool { return strings.HasSuffix(u, authService) })
	if token == nil || *token == "" || signing {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: *token}, nil
}

// RequireTransportSecurity says that etcd's users may sign in without TLS, as they do in many
// an installation of APISIX.
func (s *signIn) RequireTransportSecurity() bool { return false }

func (s *signIn) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	token := s.token.Load()
	err := invoke(ctx, method, request, reply, conn, options...)
	if method == authenticate || !unknownUser(err) {
		return err
	}
	if err := s.renew(ctx, conn, token); err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, conn, options...)
}

// stream signs in before every stream: they are few, live long, and begin when something
// happened to the servers. One that was restored from a backup leaves a call without an answer
// that carries a token from after the backup.
func (s *signIn) stream(ctx context.Context, description *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := s.renew(ctx, conn, s.token.Load()); err != nil {
		return nil, err
	}
	return open(ctx, description, conn, method, options...)
}

// renew gets a new token in the place of an old one, unless somebody else just did.
func (s *signIn) renew(ctx context.Context, conn *grpc.ClientConn, old *string) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.token.Load() != old {
		return nil
	}
	response, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx,
		&etcdserverpb.AuthenticateRequest{Name: s.username, Password: s.password})
	token := ""
	switch {
	case err == nil:
		token = response.Token
	case !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled): // then no token is needed
		return fmt.Errorf("sign in: %w", err)
	}
	s.token.Store(&token)
	return nil
}

// unknownUser tells whether a call failed because the server does not know who called.
func unknownUser(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken) ||
		errors.Is(err, rpctypes.ErrAuthOldRevision)
}
