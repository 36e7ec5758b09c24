# Follows deploy/nginx/README.md in a machine of its own: own network, own /etc/nginx, /var/lib/nginx, /var/log/nginx and /run.
# nginx is at 10.0.0.10, a node at 10.0.0.11, visitors come from 10.0.0.98 and 10.0.0.99; the other nodes of the page are away.
# Arguments: a folder for all of this, the program `penstock`, the page's commands, the page's settings of a node.
set -euo pipefail
folder=$1 penstock=$2 commands=$3 settings=$4

fail() { echo "FAILED: $*"; exit 1; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

for address in 10.0.0.10 10.0.0.11 10.0.0.12 10.0.0.13 10.0.0.98 10.0.0.99; do ip address add $address/32 dev lo; done
ip link set lo up
# Between addresses of one machine the kernel would let a connection come from where it goes to.
for node in 10.0.0.11 10.0.0.12 10.0.0.13; do ip route replace table local local $node dev lo src 10.0.0.10; done
for place in /etc/nginx /var/lib/nginx /var/log/nginx; do
    mkdir -p "$folder$place"
    cp -a $place/. "$folder$place"
    mount --bind "$folder$place" $place
done
mount -t tmpfs run /run
echo "10.0.0.10 shop.example.com" > "$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
# What systemd does on Debian, from Debian's own unit.
mkdir "$folder/bin"
cat > "$folder/bin/systemctl" << 'SYSTEMCTL'
#!/bin/sh
test "$*" = "restart nginx" || { echo "systemctl $* is not known here"; exit 1; }
sed -n 's/^ExecStartPre=//p; s/^ExecStart=//p' /lib/systemd/system/nginx.service | sh -e
SYSTEMCTL
# There is no way to Debian's servers from here: the packages that the page names have to be installed already.
cat > "$folder/bin/apt-get" << 'APT'
#!/bin/sh
test "$1 $2" = "install --yes" || { echo "apt-get $* is not known here"; exit 1; }
shift 2
exec dpkg --status "$@" > /dev/null
APT
chmod +x "$folder/bin/"*
export PATH="$folder/bin:$PATH"

# The node, with the settings of the page.
mkdir "$folder/data"
PENSTOCK_ADMIN_PASSWORD=correct-horse "$penstock" admin create --data "$folder/data" --phone +8613800138000 --name Ann
"$penstock" serve --data "$folder/data" --listen 10.0.0.11:8080 --config "$settings" > "$folder/ready" &
for _ in $(seq 600); do grep -q "ready on" "$folder/ready" && break; sleep 0.1; done

# The page, word for word.
. "$commands" > "$folder/looked"
cat "$folder/looked"
grep -qx "301 https://shop.example.com/orders" "$folder/looked" || fail "the redirect is not what the page says"
grep -q "^HTTP/2 200" "$folder/looked" || fail "the shop is not there by HTTP/2"
grep -qi "^strict-transport-security: max-age=31536000" "$folder/looked" || fail "there is no HSTS"

shop=https://shop.example.com
ask() { curl --silent --show-error --insecure --http2 --cookie-jar "$folder/jar" --cookie "$folder/jar" \
    --header "origin: $shop" --header "content-type: application/json" "$@"; }
visitor() { curl --silent --insecure --interface "$1" --output /dev/null --dump-header "$folder/headers" --write-out '%{http_code}' \
    --header "content-type: application/json" --header "x-forwarded-for: 203.0.113.$3" --data "{\"phone\":\"+86138000$2\"}" $shop/api/v1/otp; }

# HSTS is in every answer, also in those that nginx gives itself.
head -c 300000 /dev/zero | ask --output "$folder/answer" --dump-header "$folder/headers" --data-binary @- $shop/api/v1/me || true
grep -q "^HTTP/2 413" "$folder/headers" && grep -qi "^strict-transport-security" "$folder/headers" || fail "a refusal has no HSTS: $(cat "$folder/headers")"

# Sign in, sell and buy by the cookie.
ask --fail --output /dev/null --dump-header "$folder/headers" --data '{"phone":"+8613800138000","password":"correct-horse"}' $shop/api/v1/sessions
grep -i "^set-cookie: penstock_session=" "$folder/headers" | grep -q "Secure" || fail "the cookie is not Secure: $(cat "$folder/headers")"
item=$(ask --fail --data '{"title":"A phone","description":"","regular_price":{"amount":"2.00","currency":"CNY"}}' $shop/api/v1/admin/items | field id)
sale=$(ask --fail --data "{\"item_id\":\"$item\",\"price\":{\"amount\":\"1.00\",\"currency\":\"CNY\"},\"units\":5,\"limit_per_buyer\":1,\"hold_seconds\":600}" $shop/api/v1/admin/sales | field id)
ask --fail --output /dev/null --request POST $shop/api/v1/admin/sales/$sale/publish
ordered=$(ask --header "idempotency-key: one" --data '{"quantity":1}' --output "$folder/answer" --write-out '%{http_code} %{http_version}' $shop/api/v1/sales/$sale/orders)
test "$ordered" = "201 2" || fail "an order by HTTPS gives $ordered: $(cat "$folder/answer")"

for path in / /sales/$sale /sales/abc /api/v1/sales/$sale; do
    ask --output /dev/null --dump-header "$folder/headers" --header "accept: text/html" $shop$path
    grep -qi "^strict-transport-security: max-age=31536000" "$folder/headers" || fail "$path has no HSTS: $(cat "$folder/headers")"
done

# A proxy that changes Host is told so. The cookie is Secure, so it is handed over by hand.
cookie=$(awk '$6 == "penstock_session" { print $7 }' "$folder/jar")
refused=$(curl --silent --header "host: penstock" --header "origin: $shop" --header "cookie: penstock_session=$cookie" \
    --header "idempotency-key: two" --header "content-type: application/json" --data '{"quantity":1}' http://10.0.0.11:8080/api/v1/sales/$sale/orders)
test "$(field code <<< "$refused")" = cross_site || fail "a wrong Host gives $refused"
field detail <<< "$refused" | grep -qF 'proxy_set_header Host $http_host;' || fail "the refusal does not say what to set: $refused"

# A visitor who asks too often is limited, whatever address they claim, and nobody else is.
for number in $(seq 100 399); do
    status=$(visitor 10.0.0.99 "00$number" $((number % 200)))
    test "$status" = 202 || break
done
test "$status" = 429 || fail "300 codes were sent to one address; the last answer is $status"
grep -qi "^strict-transport-security" "$folder/headers" || fail "a 429 has no HSTS: $(cat "$folder/headers")"
status=$(visitor 10.0.0.98 00999 1)
test "$status" = 202 || fail "another visitor is limited too, and gets $status"
# A machine that allows few descriptors is nothing that the page could help.
! grep -v "setrlimit" /var/log/nginx/error.log || fail "nginx complains"
echo FOLLOWED
