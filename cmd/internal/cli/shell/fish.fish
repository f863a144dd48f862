# Completion of pi-chrome for fish. Save it where fish looks:
#   pi-chrome completion fish > ~/.config/fish/completions/pi-chrome.fish
function __pi_chrome_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] __complete -- fish $words[2..-1] "=$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $current
            case :folders
                __fish_complete_directories $current
            case '*'
                echo $line
        end
    end
end
complete -c pi-chrome -f -a '(__pi_chrome_complete)'
