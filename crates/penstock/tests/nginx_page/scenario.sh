# Follows deploy/nginx/README.md, twice, as on a separate machine: with its own network, /etc/nginx,
# /var/lib/nginx, /var/log/nginx and /run. nginx is at 10.0.0.10 and fd99::10, a node at 10.0.0.11; visitors
# come from 10.0.0.98, 10.0.0.99 and three IPv6 addresses. The other nodes of the page are down.
# Arguments: a folder for all of this, the program `penstock`, the page's commands, the page's settings for a
# node.
set -euo pipefail
folder=$1 penstock=$2 commands=$3 settings=$4

fail() { echo "FAILED: $*"; exit 1; }
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

for address in 10.0.0.10 10.0.0.11 10.0.0.12 10.0.0.13 10.0.0.98 10.0.0.99; do ip address add $address/32 dev lo; done
ip link set lo up
# Between addresses of one machine, the kernel would use the target's address as the source.
for node in 10.0.0.11 10.0.0.12 10.0.0.13; do ip route replace table local local $node dev lo src 10.0.0.10; done
# As right after apt-get, whatever was done on this machine before: none of our files, no cache, no logs.
for place in /etc/nginx /var/lib/nginx /var/log/nginx; do mkdir -p "$folder$place"; done
cp -a /etc/nginx/. "$folder/etc/nginx"
rm -rf "$folder/etc/nginx/penstock" "$folder/etc/nginx/nginx.conf.debian"
cp "$folder/etc/nginx/nginx.conf" "$folder/nginx.conf.before"
for place in /etc/nginx /var/lib/nginx /var/log/nginx; do mount --bind "$folder$place" $place; done
mount -t tmpfs run /run
echo "10.0.0.10 shop.example.com" > "$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts
# What systemd does on Debian, taken from Debian's own unit.
mkdir "$folder/bin"
cat > "$folder/bin/systemctl" << 'SYSTEMCTL'
#!/bin/sh
unit() { sed -n "s/^$1=-\{0,1\}//p" /lib/systemd/system/nginx.service; }
case "$*" in
"restart nginx")
    test ! -e /run/nginx.pid || unit ExecStop | sh
    { unit ExecStartPre; unit ExecStart; } | sh -e ;;
"reload nginx") unit ExecReload | sh -e ;;
*) echo "systemctl $* is not known here"; exit 1 ;;
esac
SYSTEMCTL
# Debian's servers can't be reached from here: the packages that the page names have to be installed already.
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

# The page, word for word, and once more, as an operator does to take over newer files.
for time in first second; do
    . "$commands" > "$folder/looked"
    cat "$folder/looked"
    grep -qx "301 https://shop.example.com/orders" "$folder/looked" || fail "the $time time, the redirect is not the one on the page"
    grep -q "^HTTP/2 200" "$folder/looked" || fail "the $time time, the shop does not answer by HTTP/2"
    grep -qi "^strict-transport-security: max-age=31536000" "$folder/looked" || fail "the $time time, there is no HSTS"
    cmp /etc/nginx/nginx.conf.debian "$folder/nginx.conf.before" || fail "the $time time, Debian's nginx.conf was not kept"
    test "$(grep -c ' max_fails=0;$' /etc/nginx/penstock/nodes.conf)" = 3 || fail "the $time time, there are not three nodes that stay in"
    ! grep -v ' max_fails=0;$' /etc/nginx/penstock/nodes.conf || fail "the $time time, nginx would leave this node out"
    test -z "$(find /etc/nginx/penstock -mindepth 1 -type d)" || fail "the $time time, a folder was copied into the folder"
done

shop=https://shop.example.com
ask() { curl --silent --show-error --insecure --http2 --cookie-jar "$folder/jar" --cookie "$folder/jar" \
    --header "origin: $shop" --header "content-type: application/json" "$@"; }
visitor() { curl --silent --insecure --interface "$1" --output /dev/null --dump-header "$folder/headers" --write-out '%{http_code}' \
    --header "content-type: application/json" --header "x-forwarded-for: 203.0.113.$3" --data "{\"phone\":\"+86138000$2\"}" $shop/api/v1/otp; }

# HSTS is in every answer, including nginx's own.
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

# A proxy that changes Host gets an explanation. The cookie is Secure, so it is passed by hand.
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

# IPv6, as on the page. The visitors: two networks of one household, and another household; their addresses
# contain bytes of all kinds.
page_says() { grep -o "listen \[::\]:$1[^\`]*;" deploy/nginx/README.md; }
sed -i "/^listen 443/a $(page_says 443)" /etc/nginx/penstock/listen.conf
sed -i "/listen 80/a $(page_says 80)" /etc/nginx/penstock/redirect.conf
household=fd00:a00:aff:a00::a neighbour=fd00:a00:aff:aff:ffff::1 stranger=fd00:a00:aff:b00::a
for address in fd99::10 $household $neighbour $stranger; do ip address add $address/128 dev lo; done
nginx -t 2> "$folder/tested" || fail "$(cat "$folder/tested")"
systemctl reload nginx
for port in 80 443; do
    for _ in $(seq 100); do (: < /dev/tcp/fd99::10/$port) 2> /dev/null && break; sleep 0.1; done
done
seen=$(curl --silent --resolve "shop.example.com:80:[fd99::10]" --output /dev/null --write-out '%{http_code} %{redirect_url}' http://shop.example.com/)
test "$seen" = "301 https://shop.example.com/" || fail "by IPv6, http gives $seen"
# Prints how often each status came.
look_often() { curl --no-progress-meter --insecure --parallel --resolve "shop.example.com:443:[$1]" --interface "$2" --output /dev/null \
    --write-out '%{http_code}\n' "$shop/?[1-$3]" | sort | uniq -c | tr -s '\n ' ' '; }
look_often fd99::10 $household 3000
seen=$(look_often fd99::10 $neighbour 800)
[[ $seen == *" 429 "* ]] || fail "another network of the same household has its own limits: $seen"
seen=$(look_often fd99::10 $stranger 800)
test "$seen" = " 800 200 " || fail "another household shares the limits, and gets $seen"
seen=$(look_often ::1 ::1 3000)
test "$seen" = " 3000 200 " || fail "loopback is limited, and gets $seen"

# The page can't help it if a machine allows few descriptors; and it says that nginx warns about http2.
http2='the "listen ... http2" directive is deprecated, use the "http2" directive instead in /etc/nginx/penstock/listen.conf:'
! grep -hvF -e "setrlimit" -e "$http2" -e "syntax is ok" -e "test is successful" /var/log/nginx/error.log "$folder/tested" \
    || fail "nginx complains"
echo FOLLOWED
