package keyset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// fetchTimeout bounds one fetch of a key set.
const fetchTimeout = 5 * time.Second

// address is where an issuer serves its keys.
type address struct{ url *url.URL }

const addressAllowed = "an https URL; http only on a loopback address"

// CheckURL reports what is wrong with the URL of a key set.
func CheckURL(text string) error {
	_, err := parseAddress(text)
	return err
}

func parseAddress(text string) (*address, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("found no URL with a host, allowed: %s", addressAllowed)
	case u.User != nil:
		return nil, fmt.Errorf("found a URL with user information, allowed: %s", addressAllowed)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("found scheme %q and host %q, allowed: %s", u.Scheme, u.Hostname(), addressAllowed)
	}
	return &address{url: u}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// String returns the address as it may be logged.
func (a *address) String() string { return a.url.Scheme + "://" + a.url.Host + a.url.Path }

// client returns a client that follows no redirect to another place.
func (a *address) client(transport http.RoundTripper) *http.Client {
	if transport == nil {
		if standard, ok := http.DefaultTransport.(*http.Transport); ok {
			transport = standard.Clone() // with connections that end with the client
		}
	}
	return &http.Client{
		Transport: transport,
		Timeout:   fetchTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 3 || r.URL.Scheme != a.url.Scheme || r.URL.Host != a.url.Host {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// get fetches the key set, and tells when it is due again.
func (a *address) get(ctx context.Context, client *http.Client) (keys []Key, refresh time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url.String(), nil)
	if err != nil {
		return nil, 0, errors.New("request could not be made")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, whose query may be secret
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("got status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSet+1))
	if err != nil {
		return nil, 0, fmt.Errorf("reading key set: %w", err)
	}
	keys, err = Parse(data)
	return keys, refreshAfter(resp.Header), err
}

// refreshAfter is how long an answer may be kept (RFC 9111 section 5.2.2.1).
func refreshAfter(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
			return min(max(time.Duration(seconds)*time.Second, refreshLeast), refreshMost)
		}
	}
	return refreshDefault
}
