#compdef pi-chrome
# Completion of pi-chrome for zsh. Put this into your ~/.zshrc, after compinit:
#   source <(pi-chrome completion zsh)
# or save it as _pi-chrome in a folder of your fpath.
_pi_chrome() {
  local line value shown want=
  local -a list open
  while IFS= read -r line; do
    case $line in
      :files) want=files; continue ;;
      :folders) want=folders; continue ;;
    esac
    value=${line%%$'\t'*}
    shown=${value//:/\\:}
    if [[ $line == *$'\t'* ]]; then
      shown+=":${line#*$'\t'}"
    fi
    # What ends with "=" wants its value at once.
    if [[ $value == *= ]]; then open+=("$shown"); else list+=("$shown"); fi
  done < <("${(Q)words[1]/#\~/$HOME}" __complete -- zsh "${(@Q)words[2,CURRENT-1]}" "=${(Q)words[CURRENT]}" 2>/dev/null)
  case $want in
    files) _files; return ;;
    folders) _files -/; return ;;
  esac
  if (( $#list )); then _describe -V 'pi-chrome' list; fi
  if (( $#open )); then _describe -V 'pi-chrome' open -S ''; fi
}
if [[ ${funcstack[1]} == (_pi_chrome|_pi-chrome) ]]; then
  _pi_chrome "$@"
else
  compdef _pi_chrome pi-chrome
fi
