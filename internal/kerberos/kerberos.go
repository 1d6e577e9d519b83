// Package kerberos finds out who we are where Kerberos asks.
package kerberos

import (
	"errors"
	"fmt"
	"os"
	"strings"

	krb "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/keytab"
)

// Client finds credentials where MIT's tools have them: the key table in
// $KRB5_CLIENT_KTNAME, whose first entry says who we are, or the tickets of kinit
// in $KRB5CCNAME, else /tmp/krb5cc_<uid>. $KRB5_CONFIG, else /etc/krb5.conf, says
// where the KDC is. A key table lasts; tickets end, and with them what needs them.
func Client() (*krb.Client, error) {
	at := os.Getenv("KRB5_CONFIG")
	if at == "" {
		at = "/etc/krb5.conf"
	}
	conf, err := config.Load(at)
	if err != nil {
		return nil, fmt.Errorf("read %s (set KRB5_CONFIG): %w", at, err)
	}
	if name := os.Getenv("KRB5_CLIENT_KTNAME"); name != "" {
		return withKeytab(strings.TrimPrefix(name, "FILE:"), conf)
	}
	tickets := os.Getenv("KRB5CCNAME")
	kind, rest, ok := strings.Cut(tickets, ":")
	switch {
	case tickets == "":
		tickets = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	case ok && kind == "FILE":
		tickets = rest
	case ok:
		return nil, fmt.Errorf("tickets of kind %s (KRB5CCNAME) cannot be read: use FILE:, or a key table in KRB5_CLIENT_KTNAME", kind)
	}
	cache, err := credentials.LoadCCache(tickets)
	if err != nil {
		return nil, fmt.Errorf("read the tickets in %s (run kinit, or set KRB5_CLIENT_KTNAME): %w", tickets, err)
	}
	return krb.NewFromCCache(cache, conf)
}

func withKeytab(path string, conf *config.Config) (*krb.Client, error) {
	table, err := keytab.Load(path)
	if err != nil {
		return nil, fmt.Errorf("read the key table of KRB5_CLIENT_KTNAME: %w", err)
	}
	if len(table.Entries) == 0 {
		return nil, errors.New("the key table of KRB5_CLIENT_KTNAME has no entry")
	}
	who := table.Entries[0].Principal
	c := krb.NewWithKeytab(strings.Join(who.Components, "/"), who.Realm, table, conf)
	if err := c.Login(); err != nil {
		return nil, fmt.Errorf("log in as %s@%s: %w", strings.Join(who.Components, "/"), who.Realm, err)
	}
	return c, nil
}
