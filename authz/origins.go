package authz

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Origins is a list of web origins. Scheme, host and port are compared; there
// are no patterns, and "null", which every sandboxed page has, is never among
// them. The zero value has none.
type Origins struct {
	set map[string]struct{}
}

// ParseOrigins returns the list of the named origins, or an error that tells
// for each bad one what was found and what is allowed.
func ParseOrigins(list []string) (Origins, error) {
	o := Origins{set: make(map[string]struct{}, len(list))}
	var errs []error
	for _, text := range list {
		origin, err := parseOrigin(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("origin: got %q, %w; allowed is scheme://host[:port], for example https://app.example.com", text, err))
			continue
		}
		o.set[origin] = struct{}{}
	}
	return o, errors.Join(errs...)
}

// Allow reports whether the value of an Origin header is in the list.
func (o Origins) Allow(origin string) bool {
	_, ok := o.set[origin]
	return ok
}

// List returns the origins in order, as browsers write them.
func (o Origins) List() []string { return slices.Sorted(maps.Keys(o.set)) }

// parseOrigin returns an origin as browsers serialise it (HTML Standard
// section 7.1.1): lower case, without the scheme's own port.
func parseOrigin(text string) (string, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case text == "null":
		return "", errors.New("which every sandboxed page has")
	case strings.Contains(text, "*"):
		return "", errors.New("which has a wildcard")
	case !ok || scheme == "":
		return "", errors.New("which has no scheme")
	case strings.ContainsAny(rest, "/?#\\"):
		return "", errors.New("which has a path, query or fragment")
	case strings.Contains(rest, "@"):
		return "", errors.New("which has user information")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("which is no URL")
	}
	host, err := originHost(u)
	if err != nil {
		return "", err
	}
	port, err := originPort(u)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + host + port, nil
}

func originHost(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Zone() != "" {
			return "", errors.New("which has no valid IPv6 address")
		}
		return "[" + addr.String() + "]", nil
	}
	if host == "" {
		return "", errors.New("which has no host")
	}
	if strings.ContainsFunc(host, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", c)
	}) {
		return "", errors.New("which has a host that is not in its ASCII form")
	}
	return host, nil
}

func originPort(u *url.URL) (string, error) {
	if !strings.HasSuffix(u.Host, ":") && u.Port() == "" {
		return "", nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case err != nil || port == 0:
		return "", errors.New("which has no port between 1 and 65535")
	case u.Scheme == "http" && port == 80, u.Scheme == "https" && port == 443:
		return "", nil
	}
	return fmt.Sprintf(":%d", port), nil
}
