//go:build unix

package servers

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ActiveMQOptions are how an ActiveMQ is started. The zero value lets everybody
// do everything.
type ActiveMQOptions struct {
	Users []ActiveMQUser // who may log in; nobody else may
	TLS   bool           // TLSAddr is there too
}

// ActiveMQUser is one login and its rights. Rights are names of queues, or
// patterns of them: "suite.>" is all below suite.
type ActiveMQUser struct {
	Name, Password string
	Uses           []string // queues to write to and read from
	Makes          []string // queues to create by using them
}

// ActiveMQServer is one ActiveMQ Classic that speaks STOMP, and keeps its
// messages on disk.
type ActiveMQServer struct {
	Node
	addr, tlsAddr, ca string
}

const (
	activeReadyIn = 90 * time.Second
	// activePorts: STOMP, STOMP over TLS.
	activePorts = 2
	// activeHome is where Debian's package is.
	activeHome = "/usr/share/activemq"
)

// ActiveMQ starts an ActiveMQ that ends with the test. It returns when the
// server speaks STOMP.
func ActiveMQ(t TB, o ActiveMQOptions) *ActiveMQServer {
	t.Helper()
	slow(t)
	jar := filepath.Join(activeHome, "bin", "activemq.jar")
	if _, err := os.Stat(jar); err != nil {
		unavailable(t, "%s not found: install it with `apt-get install activemq`, or run `make deps`", jar)
	}
	port, dir := freePorts(t, activePorts), t.TempDir()
	s := &ActiveMQServer{addr: loopback(port)}
	if o.TLS {
		s.tlsAddr, s.ca = loopback(port+1), activeKeys(t, dir)
	}
	config := writeFile(t, dir, "activemq.xml", o.xml(t, dir, s))
	log := writeFile(t, dir, "log4j.properties", activeLog)
	argv := append(jvm(t, dir), "-Xms64m", "-Xmx256m", "-Dlog4j.configuration=file:"+log, "-Dactivemq.home="+activeHome,
		"-Dactivemq.base="+dir, "-Dactivemq.conf="+dir, "-Dactivemq.data="+dir, "-jar", jar, "start", "xbean:file:"+config)
	p := &process{name: "activemq", dir: dir, argv: argv}
	s.Node = Node{t: t, what: "activemq " + s.addr, process: p, readyIn: activeReadyIn,
		ready: func() error { return speaksSTOMP(s.addr) }}
	t.Cleanup(p.kill)
	s.Start()
	return s
}

const activeLog = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p %m%n
`

// xml is the server's configuration. It has no web console, no JMX, and no
// connector but those for STOMP.
func (o ActiveMQOptions) xml(t TB, dir string, s *ActiveMQServer) string {
	t.Helper()
	connectors, ssl := fmt.Sprintf(`<transportConnector name="stomp" uri="stomp://%s"/>`, s.addr), ""
	if o.TLS {
		connectors += fmt.Sprintf(`<transportConnector name="stomp+ssl" uri="stomp+ssl://%s"/>`, s.tlsAddr)
		ssl = fmt.Sprintf(`<sslContext><sslContext keyStore="file:%s" keyStorePassword="%s"/></sslContext>`,
			filepath.Join(dir, activeKeyStore), activeKeyPassword)
	}
	return fmt.Sprintf(activeConfig, dir, o.plugins(), filepath.Join(dir, "kahadb"), ssl, connectors)
}

// activeConfig has the directory, plugins, the store's directory, keys and
// connectors filled in. Spring wants the schema's location, and has it in a jar.
const activeConfig = `<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="test" useJmx="false" schedulerSupport="true" dataDirectory="%s">
    %s
    <persistenceAdapter><kahaDB directory="%s"/></persistenceAdapter>
    %s
    <transportConnectors>%s</transportConnectors>
  </broker>
</beans>
`

// plugins are the users and their rights. Rights of several entries that fit
// add up; topics are free, as clients make some for themselves.
func (o ActiveMQOptions) plugins() string {
	if len(o.Users) == 0 {
		return ""
	}
	var users, rights strings.Builder
	uses, makes := map[string][]string{}, map[string][]string{}
	for _, u := range o.Users {
		fmt.Fprintf(&users, `<authenticationUser username="%s" password="%s" groups="%[1]s"/>`, escapeXML(u.Name), escapeXML(u.Password))
		for _, queue := range u.Uses {
			uses[queue] = append(uses[queue], u.Name)
		}
		for _, queue := range u.Makes {
			makes[queue] = append(makes[queue], u.Name)
		}
	}
	const entry = `<authorizationEntry %s="%s" read="%s" write="%[3]s" admin="%[4]s"/>`
	names := map[string]bool{}
	for _, granted := range []map[string][]string{uses, makes} {
		for queue := range granted {
			if !names[queue] {
				names[queue] = true
				fmt.Fprintf(&rights, entry, "queue", escapeXML(queue), groups(uses[queue]), groups(makes[queue]))
			}
		}
	}
	var all []string
	for _, u := range o.Users {
		all = append(all, u.Name)
	}
	fmt.Fprintf(&rights, entry, "topic", escapeXML(">"), groups(all), groups(all))
	return "<plugins><simpleAuthenticationPlugin><users>" + users.String() + "</users></simpleAuthenticationPlugin>" +
		"<authorizationPlugin><map><authorizationMap><authorizationEntries>" + rights.String() +
		"</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
}

// groups is a list as the rights have it. A list of nobody would be everybody.
func groups(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return escapeXML(strings.Join(names, ","))
}

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}

const (
	activeKeyStore    = "keys.p12"
	activeKeyPassword = "secret"
)

// activeKeys makes a key for localhost and returns the file of its certificate.
func activeKeys(t TB, dir string) string {
	t.Helper()
	program, err := exec.LookPath("keytool")
	if err != nil {
		unavailable(t, "keytool not found: it comes with Java; install default-jdk-headless, or run `make deps`")
	}
	store, certificate := filepath.Join(dir, activeKeyStore), filepath.Join(dir, "ca.pem")
	for _, args := range [][]string{
		{"-genkeypair", "-alias", "test", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "SAN=DNS:localhost,IP:127.0.0.1", "-validity", "2"},
		{"-exportcert", "-alias", "test", "-rfc", "-file", certificate},
	} {
		args = append(args, "-keystore", store, "-storetype", "PKCS12", "-storepass", activeKeyPassword)
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("keytool %s: %v\n%s", args[0], err, out)
		}
	}
	return certificate
}

// speaksSTOMP fails unless the server answers a CONNECT, be it with a refusal.
func speaksSTOMP(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("CONNECT\naccept-version:1.2\nhost:localhost\n\n\x00")); err != nil {
		return err
	}
	answer := make([]byte, len("CONNECTED"))
	n, err := conn.Read(answer)
	if text := string(answer[:n]); err != nil || text != "CONNECTED" && !strings.HasPrefix(text, "ERROR") {
		return errors.Join(fmt.Errorf("answered %q to CONNECT", text), err)
	}
	return nil
}

// Addr is where the server speaks STOMP.
func (s *ActiveMQServer) Addr() string { return s.addr }

// TLSAddr is where it does so over TLS, with a certificate for localhost and
// 127.0.0.1; CA is the file, in PEM, that vouches for it.
func (s *ActiveMQServer) TLSAddr() string { return s.tlsAddr }

// CA is the file for TLSAddr.
func (s *ActiveMQServer) CA() string { return s.ca }
